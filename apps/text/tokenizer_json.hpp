// Hugging Face's tokenizer.json.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <filesystem>
#include <memory>

namespace penstock::apps {

/// WordPiece as BERT uses it, and BPE: on bytes (GPT-2) or with an end of word ("</w>"), equal to the `tokenizers`
/// library. Throws error that names the file: damage with its place, and everything that is not supported, all at once.
/// What the file says of truncation and padding is left to the data; the template's tokens are special().begin and end.
std::unique_ptr<tokenizer> open_tokenizer_json(const std::filesystem::path& file);

} // namespace penstock::apps
