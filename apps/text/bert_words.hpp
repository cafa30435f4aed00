// BERT's way from a line to words: cleaned, lower-cased, accents and punctuation taken apart.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace penstock::apps {

/// Whose order of steps, where they differ: `transformers` lower-cases first, composes (NFC) and takes unassigned
/// characters for controls (BertTokenizer, Google's tokenization.py); `tokenizers` (BertTokenizerFast, tokenizer.json)
/// does none of these and leaves U+2B820 to U+2B91F within words.
enum class bert_dialect : std::uint8_t { transformers, tokenizers };

struct bert_words {
  bert_dialect dialect = bert_dialect::transformers;
  bool lower_case = true;
  bool strip_accents = true;
  bool splits_cjk = true; ///< every ideograph is a word
  /// What is never split when it stands between white space after cleaning; may be empty.
  std::function<bool(std::string_view)> is_whole{};

  /// Calls `word` for each word and punctuation mark of valid UTF-8, in order; the view is good until it returns.
  void of(std::string_view text, const std::function<void(std::string_view)>& word) const;
};

} // namespace penstock::apps
