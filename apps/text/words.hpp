// Whole words between white space, as AWD LSTM's language model reads them.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <filesystem>
#include <memory>

namespace penstock::apps {

/// Of a file with a word a line, <unk> and <eos> among them; ids are the lines. A word is what Python's str.split()
/// gives. Throws error that names the file: what read_token_lines() refuses, a word twice, <unk> or <eos> missing.
std::unique_ptr<tokenizer> open_words(const std::filesystem::path& vocab_file);

} // namespace penstock::apps
