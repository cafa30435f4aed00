// BLEU of a corpus, as sacrebleu gives it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::apps {

/// How a line becomes tokens. intl: mteval-v14's rules (punctuation is split off unless a digit is beside it, symbols
/// always), over Unicode's classes. thirteen_a: mteval-v13a's, over ASCII, with its four HTML entities. none: at
/// blanks.
enum class bleu_tokenizer : std::uint8_t { intl, thirteen_a, none };

/// "intl", "13a", "none".
std::string_view name_of(bleu_tokenizer tokenizer);

/// The tokens of one line of UTF-8.
std::vector<std::string> bleu_tokens(std::string_view line, bleu_tokenizer tokenizer, bool is_lower_case);

struct bleu_options {
  bleu_tokenizer tokenizer = bleu_tokenizer::intl;
  bool is_lower_case = true;
};

/// What a corpus's BLEU is made of. `matches` and `totals` count n-grams of 1 to 4 tokens in the hypotheses, those that
/// are in a reference (each as often as the reference with most of them has it) and all.
struct bleu_score {
  std::array<std::int64_t, 4> matches{};
  std::array<std::int64_t, 4> totals{};
  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0; ///< of the reference nearest in length, the shorter of two
  std::size_t references = 1;        ///< of each line
  bleu_options options;

  /// In percent; an order without a match counts as 100 / (2^k n-grams), k the how-manieth such order (sacrebleu's
  /// "exp"). 0 where the hypotheses have no n-gram of that order.
  std::array<double, 4> precisions() const;
  /// exp(1 - reference / hypothesis) where the hypotheses are shorter, else 1.
  double brevity_penalty() const;
  /// 0 to 100: the penalty times the geometric mean of the precisions; 0 where nothing matches at all.
  double bleu() const;
  /// "nrefs:1|case:lc|eff:no|tok:intl|smooth:exp"
  std::string signature() const;
};

/// `references` holds one or more sets of lines, each as long as `hypotheses`. Throws usage_error when their counts
/// differ.
bleu_score corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                       const bleu_options& options = {});

} // namespace penstock::apps
