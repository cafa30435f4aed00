// BERT's tokenizer: words, then the longest pieces of the vocabulary.
#pragma once

#include "apps/text/added_tokens.hpp"
#include "apps/text/bert_words.hpp"
#include "apps/text/tokenizer.hpp"
#include "apps/text/vocabulary.hpp"

#include <filesystem>
#include <memory>

namespace penstock::apps {

struct wordpiece_options {
  bert_words words{};
  std::string prefix = "##"; ///< of pieces within a word
  std::string unknown = "[UNK]";
  std::size_t longest_word = 100; ///< characters; longer words are `unknown`
  bool cleans_up_spaces = true;   ///< of decoded text, before punctuation, as transformers does
};

/// Throws error when a token is missing; `added` are found in the text as they stand, before anything is done to it.
std::unique_ptr<tokenizer> make_wordpiece(vocabulary tokens, wordpiece_options options,
                                          std::vector<std::pair<std::string, std::int64_t>> added, special_ids special);

enum class letter_case : std::uint8_t { as_found, lower, kept };

/// Of a vocab.txt, equal to transformers' BertTokenizer; with letter_case::as_found lower-casing unless a token has a
/// capital letter. Throws error that names the file: what read_token_lines() refuses, a token twice, one of [PAD],
/// [UNK], [CLS], [SEP], [MASK] missing.
std::unique_ptr<tokenizer> open_wordpiece(const std::filesystem::path& vocab_file,
                                          letter_case letters = letter_case::as_found);

/// The special tokens of BERT, in the order in which a trained vocabulary begins.
inline const std::vector<std::string>& bert_special_tokens() {
  static const std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  return tokens;
}

} // namespace penstock::apps
