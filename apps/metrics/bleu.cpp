// Counts n-grams and puts BLEU together (Papineni et al. 2002; smoothing "exp" is NIST's).
#include "apps/metrics/bleu.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>

namespace penstock::apps {

namespace {

constexpr std::size_t longest = 4;
using ngram = std::vector<std::string_view>;
using ngram_counts = std::map<ngram, std::int64_t>;

ngram_counts count_ngrams(std::span<const std::string> tokens) {
  ngram_counts counts;
  for (std::size_t first = 0; first < tokens.size(); ++first) {
    ngram key;
    for (std::size_t last = first; last < std::min(first + longest, tokens.size()); ++last) {
      key.push_back(tokens[last]);
      ++counts[key];
    }
  }
  return counts;
}

void add_line(bleu_score& score, std::span<const std::string> hypothesis,
              std::span<const std::vector<std::string>> references) {
  const auto length = static_cast<std::int64_t>(hypothesis.size());
  ngram_counts most;
  std::int64_t nearest = std::numeric_limits<std::int64_t>::max() / 2;
  for (const auto& tokens : references) {
    for (const auto& [key, count] : count_ngrams(tokens)) {
      auto& known = most[key];
      known = std::max(known, count);
    }
    const auto size = static_cast<std::int64_t>(tokens.size());
    const auto gap = std::abs(size - length);
    const auto least = std::abs(nearest - length);
    if (gap < least || (gap == least && size < nearest)) nearest = size;
  }
  for (const auto& [key, count] : count_ngrams(hypothesis)) {
    score.totals.at(key.size() - 1) += count;
    const auto found = most.find(key);
    if (found != most.end()) score.matches.at(key.size() - 1) += std::min(count, found->second);
  }
  score.hypothesis_tokens += length;
  score.reference_tokens += nearest;
}

} // namespace

std::array<double, longest> bleu_score::precisions() const {
  std::array<double, longest> shares{};
  if (std::accumulate(matches.begin(), matches.end(), std::int64_t{0}) == 0) return shares;
  double smoothing = 1;
  for (std::size_t order = 0; order < longest && totals[order] > 0; ++order) {
    const auto total = static_cast<double>(totals[order]);
    if (matches[order] > 0)
      shares[order] = 100 * static_cast<double>(matches[order]) / total;
    else
      shares[order] = 100 / ((smoothing *= 2) * total);
  }
  return shares;
}

double bleu_score::brevity_penalty() const {
  if (hypothesis_tokens >= reference_tokens) return 1;
  if (hypothesis_tokens == 0) return 0;
  return std::exp(1 - static_cast<double>(reference_tokens) / static_cast<double>(hypothesis_tokens));
}

double bleu_score::bleu() const {
  double logarithms = 0;
  for (const double share : precisions()) {
    if (share == 0) return 0;
    logarithms += std::log(share);
  }
  return brevity_penalty() * std::exp(logarithms / longest);
}

std::string bleu_score::signature() const {
  return "nrefs:" + std::to_string(references) + "|case:" + (options.is_lower_case ? "lc" : "mixed") +
         "|eff:no|tok:" + std::string(name_of(options.tokenizer)) + "|smooth:exp";
}

bleu_score corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                       const bleu_options& options) {
  if (references.empty()) throw usage_error("BLEU: found no references, wanted at least one set of lines");
  for (const auto& lines : references)
    if (lines.size() != hypotheses.size())
      throw usage_error("BLEU: found " + std::to_string(hypotheses.size()) + " hypotheses and " +
                        std::to_string(lines.size()) + " references, wanted as many of each");
  bleu_score score;
  score.options = options;
  score.references = references.size();
  for (std::size_t line = 0; line < hypotheses.size(); ++line) {
    std::vector<std::vector<std::string>> right;
    for (const auto& lines : references)
      right.push_back(bleu_tokens(lines[line], options.tokenizer, options.is_lower_case));
    add_line(score, bleu_tokens(hypotheses[line], options.tokenizer, options.is_lower_case), right);
  }
  return score;
}

} // namespace penstock::apps
