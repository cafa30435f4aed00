// Whole words between white space, as AWD LSTM's language model reads them.
#pragma once

#include "apps/text/tokenizer.hpp"
#include "apps/text/word_counts.hpp"

#include <filesystem>
#include <memory>

namespace penstock::apps {

/// Of a file with a word a line, <unk> and <eos> among them; ids are the lines. A word is what Python's str.split()
/// gives. Throws error that names the file: what read_token_lines() refuses, a word twice, <unk> or <eos> missing.
std::unique_ptr<tokenizer> open_words(const std::filesystem::path& vocab_file);

/// The same of such a list.
std::unique_ptr<tokenizer> make_words(std::vector<std::string> tokens);

/// <unk>, <eos> and the most frequent other words, `most` of them in all.
std::vector<std::string> most_frequent(const word_counts& words, std::int64_t most);

} // namespace penstock::apps
