// Byte pair encoding as Hugging Face's tokenizers do it.
#pragma once

#include "apps/text/added_tokens.hpp"
#include "apps/text/tokenizer.hpp"
#include "apps/text/unicode.hpp"
#include "apps/text/vocabulary.hpp"

#include <memory>

namespace penstock::apps {

enum class text_step : std::uint8_t { nfc, nfd, nfkc, nfkd, lower_case };

struct byte_pair_options {
  std::vector<text_step> normalizer{};
  bool on_bytes = true;                 ///< every byte has its character (GPT-2); else words between white space
  bool adds_prefix_space = false;       ///< on_bytes: before text that does not begin with one
  bool splits_words = true;             ///< on_bytes: by GPT-2's pattern
  std::string word_end{};               ///< behind a word's last character
  std::optional<std::string> unknown{}; ///< for characters without a symbol; absent: they are left out
  bool fuses_unknown = false;           ///< neighbours become one
  bool whole_words_first = false;       ///< a word that is a token needs no merges
};

/// Throws error for a merge listed twice or whose result is no token. Tokens of `added` are found as they stand.
std::unique_ptr<tokenizer> make_byte_pairs(vocabulary tokens,
                                           const std::vector<std::pair<std::string, std::string>>& merges,
                                           byte_pair_options options,
                                           std::vector<std::pair<std::string, std::int64_t>> added,
                                           special_ids special);

} // namespace penstock::apps
