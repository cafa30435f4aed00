// Candidates of each hypothesis, and the best of them all.
#include "apps/translation/beam_search.hpp"

#include "apps/text/translation_tokens.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::apps {

namespace {

using ids = translation_tokens;

// The places of the greatest values, in their order; equal ones by place. NaN is never among them.
std::vector<std::size_t> greatest(std::span<const float> values, std::size_t count) {
  std::vector<std::size_t> places;
  places.reserve(count + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) || (places.size() == count && !(values[i] > values[places.back()]))) continue;
    const auto before =
        std::find_if(places.begin(), places.end(), [&](std::size_t place) { return values[i] > values[place]; });
    places.insert(before, i);
    if (places.size() > count) places.pop_back();
  }
  return places;
}

} // namespace

beam_search::beam_search(const search_options& options, std::int64_t source_tokens)
    : options_(options),
      beam_{{.tokens = {}, .attention = std::vector<double>(static_cast<std::size_t>(source_tokens))}}, rows_{0} {
  check(options.beam > 0 && options.most_tokens > 0 && source_tokens > 0, "a search has a beam, a limit and a source");
}

std::int64_t beam_search::last_token(std::size_t row) const {
  const auto& tokens = beam_.at(rows_.at(row)).tokens;
  return tokens.empty() ? ids::begin : tokens.back();
}

// log p of a token is its logit less the greatest, plus log p of that: exact where p itself is too small for a float.
void beam_search::add_candidates(std::size_t of, const next_scores& scores, std::vector<candidate>& to) const {
  const auto best = greatest(scores.logits, static_cast<std::size_t>(options_.beam));
  if (best.empty()) throw error("[translation] found scores of tokens that are no numbers");
  const double top = scores.logits[best.front()], log_top = std::log(double{scores.probabilities[best.front()]});
  for (const auto token : best)
    to.push_back({.parent = of,
                  .token = static_cast<std::int64_t>(token),
                  .log_probability = beam_[of].log_probability + (scores.logits[token] - top) + log_top});
}

std::vector<std::size_t> beam_search::advance(std::span<const next_scores> of_rows) {
  check(of_rows.size() == rows_.size(), "each row has its scores");
  std::vector<std::size_t> row_of(beam_.size());
  for (std::size_t row = 0; row < rows_.size(); ++row)
    row_of[rows_[row]] = row;
  std::vector<candidate> candidates;
  for (std::size_t h = 0; h < beam_.size(); ++h) {
    if (beam_[h].has_ended)
      candidates.push_back({.parent = h, .log_probability = beam_[h].log_probability});
    else
      add_candidates(h, of_rows[row_of[h]], candidates);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const candidate& a, const candidate& b) { return a.log_probability > b.log_probability; });
  if (candidates.size() > static_cast<std::size_t>(options_.beam))
    candidates.resize(static_cast<std::size_t>(options_.beam));
  std::vector<hypothesis> next;
  std::vector<std::size_t> parents;
  rows_.clear();
  for (const auto& c : candidates) {
    auto h = beam_[c.parent];
    if (c.token >= 0) {
      const auto& attention = of_rows[row_of[c.parent]].attention;
      for (std::size_t i = 0; i < h.attention.size(); ++i)
        h.attention[i] += attention[i];
      h.tokens.push_back(c.token);
      h.log_probability = c.log_probability;
      h.has_ended = c.token == ids::end;
      if (!h.has_ended && static_cast<std::int64_t>(h.tokens.size()) < options_.most_tokens) {
        rows_.push_back(next.size());
        parents.push_back(row_of[c.parent]);
      }
    }
    next.push_back(std::move(h));
  }
  beam_ = std::move(next);
  return parents;
}

double beam_search::score(const hypothesis& h) const {
  constexpr double constant = 5;
  const auto length = static_cast<double>(h.tokens.size());
  double covered = 0;
  for (const auto sum : h.attention)
    covered += std::log(std::clamp(sum, std::numeric_limits<double>::min(), 1.0));
  return h.log_probability / std::pow((constant + length) / (constant + 1), options_.length_power) +
         options_.coverage * covered;
}

translated beam_search::best() const {
  check(is_done(), "a search has come to its end");
  translated best;
  for (const auto& h : beam_) {
    const auto value = score(h);
    if (best.tokens.empty() || value > best.score) best = {.tokens = h.tokens, .score = value};
  }
  return best;
}

} // namespace penstock::apps
