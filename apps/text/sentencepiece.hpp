// Models of Google's sentencepiece, unigram and BPE.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <string_view>

namespace penstock::apps {

/// Does the file look like a model of sentencepiece (a message that begins with a piece)?
bool is_sentencepiece(std::string_view start);

/// Throws error that names the file: unreadable, damaged (before the library sees it, which trusts models), refused by
/// the library.
std::unique_ptr<tokenizer> open_sentencepiece(const std::filesystem::path& model_file);

/// What check_sentencepiece() finds out, or throws error for what is damaged: cut off, no pieces, a piece that is
/// empty, no UTF-8, twice there or of unknown type, a score that is no number, not one unknown piece, normalisation
/// rules whose trie leads out of itself.
struct sentencepiece_facts {
  std::size_t pieces = 0;
  int model_type = 1; ///< 1 unigram, 2 BPE, 3 words, 4 characters
};
sentencepiece_facts check_sentencepiece(std::string_view model);

} // namespace penstock::apps
