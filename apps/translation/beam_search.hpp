// The search for the best translation of one sentence.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::apps {

struct search_options {
  std::int64_t beam = 5;          ///< hypotheses; 1: the best token at each step
  std::int64_t most_tokens = 150; ///< of a translation, its end included
  double length_power = 0.6;      ///< of the length penalty
  double coverage = 0.1;          ///< weight of the coverage penalty
};

/// What a decoder says of the token that comes next in one row. It stays the caller's.
struct next_scores {
  std::span<const float> logits;        ///< of each token
  std::span<const float> probabilities; ///< their softmax
  std::span<const float> attention;     ///< to each token of the source, beyond its length too
};

struct translated {
  token_ids tokens; ///< without BOS; EOS last, unless the translation came to an end without
  double score = 0; ///< of beam_search::score
};

/// Beam search as GNMT's (Wu et al., arXiv:1609.08144, section 7) in MLPerf's form: the hypotheses of a beam, those
/// that have ended among them, are the most probable ones of each step, and the search ends when all of them have, or
/// at the limit. Only those that go on need a decoder; each is a row. Ties go to the hypothesis that was better before,
/// then to the smaller token. Deterministic.
class beam_search {
public:
  beam_search(const search_options& options, std::int64_t source_tokens);

  bool is_done() const { return rows_.empty(); }
  std::size_t rows() const { return rows_.size(); }
  /// The token that the row has last: BOS in the beginning, when there is one row.
  std::int64_t last_token(std::size_t row) const;

  /// One entry for each row. Returns for each of the rows that there are now the one that it continues. Throws error
  /// for scores that are no numbers.
  std::vector<std::size_t> advance(std::span<const next_scores> of_rows);

  /// The best hypothesis: the one with the greatest log P / ((5 + length) / 6)^length_power + coverage * (sum over the
  /// source of log min(1, sum over steps of attention)), length being its tokens, EOS included.
  translated best() const;

private:
  struct hypothesis {
    token_ids tokens;
    double log_probability = 0;
    std::vector<double> attention; ///< summed, by tokens of the source
    bool has_ended = false;
  };
  struct candidate {
    std::size_t parent = 0;
    std::int64_t token = -1; ///< -1: the parent as it is, which has ended
    double log_probability = 0;
  };
  void add_candidates(std::size_t of, const next_scores& scores, std::vector<candidate>& to) const;
  double score(const hypothesis& h) const;

  search_options options_;
  std::vector<hypothesis> beam_;
  std::vector<std::size_t> rows_; ///< places in beam_
};

} // namespace penstock::apps
