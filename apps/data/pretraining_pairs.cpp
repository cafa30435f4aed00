// Draws pairs by sentence numbers first: what their lengths are is asked more often than what they say.
#include "apps/data/pretraining_pairs.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock::apps {

namespace {

constexpr std::int64_t around = 3; // [CLS] and two [SEP]
constexpr double masked_share = 0.15;

} // namespace

std::int64_t most_masked(std::int64_t tokens) {
  return std::max<std::int64_t>(1, (15 * tokens + 99) / 100);
}

pretraining_pairs::pretraining_pairs(document_rows text, const pair_options& options)
    : text_(std::move(text)), options_(options) {
  if (options.most_tokens < least_pair_tokens)
    throw usage_error("masked-text: found a limit of " + std::to_string(options.most_tokens) +
                      " tokens, wanted at least " + std::to_string(least_pair_tokens));
  const auto room = options.most_tokens - around;
  for (std::size_t d = 0; d < text_.firsts.size(); ++d)
    for (auto first = text_.firsts[d]; first < end_of(d);) {
      const auto last = filled(first, end_of(d), room).last;
      chunks_.push_back({d, first, last});
      first = last;
    }
  if (text_.firsts.size() == 1 && chunks_.size() == 1)
    throw usage_error("masked-text: found text that one sample of " + std::to_string(options.most_tokens) +
                      " tokens holds, wanted more");
}

std::size_t pretraining_pairs::end_of(std::size_t document) const {
  return document + 1 < text_.firsts.size() ? text_.firsts[document + 1] : text_.sentences.rows();
}

// As many sentences as have so many tokens, at least one.
pretraining_pairs::piece pretraining_pairs::filled(std::size_t first, std::size_t last, std::int64_t tokens) const {
  piece p{first, first};
  while (p.last < last && (p.last == first || p.tokens < tokens))
    p.tokens += tokens_of(p.last++);
  return p;
}

// Another document's; where there is none, what does not belong to the sample.
pretraining_pairs::piece pretraining_pairs::text_from_elsewhere(const chunk& of, std::int64_t tokens,
                                                                sample_random& random) const {
  const auto documents = static_cast<std::int64_t>(text_.firsts.size());
  if (documents > 1) {
    auto other = static_cast<std::size_t>(random.below(documents - 1));
    if (other >= of.document) ++other;
    const auto first = text_.firsts[other];
    const auto start = first + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(end_of(other) - first)));
    return filled(start, end_of(other), tokens);
  }
  const auto rest = static_cast<std::int64_t>(text_.sentences.rows() - (of.last - of.first));
  auto start = static_cast<std::size_t>(random.below(rest));
  if (start >= of.first) start += of.last - of.first;
  return filled(start, start < of.first ? of.first : text_.sentences.rows(), tokens);
}

pretraining_pairs::pair pretraining_pairs::draw(const chunk& from, sample_random& random) const {
  auto target = options_.most_tokens - around;
  if (random.below(10) == 0) target = 2 + random.below(target - 1);
  const auto all = filled(from.first, from.last, target);
  const auto sentences = static_cast<std::int64_t>(all.last - all.first);
  const auto of_a = sentences > 1 ? 1 + random.below(sentences - 1) : 1;
  pair p;
  p.a = {all.first, all.first + static_cast<std::size_t>(of_a)};
  for (auto s = p.a.first; s < p.a.last; ++s)
    p.a.tokens += tokens_of(s);
  p.is_random = sentences == 1 || random.below(2) == 0;
  p.b = p.is_random ? text_from_elsewhere(from, target - p.a.tokens, random)
                    : piece{p.a.last, all.last, all.tokens - p.a.tokens};
  shorten(p, random);
  return p;
}

void pretraining_pairs::shorten(pair& p, sample_random& random) const {
  while (p.a.tokens + p.b.tokens > options_.most_tokens - around) {
    auto& longer = p.a.tokens > p.b.tokens ? p.a : p.b;
    --longer.tokens;
    if (random.below(2) == 0) ++longer.cut;
  }
}

// Python's round(): half to even, which is how the library rounds unless told else.
std::int64_t pretraining_pairs::masked_of(std::int64_t tokens) const {
  const auto share = std::lrint(masked_share * static_cast<double>(tokens));
  return std::clamp<std::int64_t>(share, 1, most_masked(options_.most_tokens));
}

pretraining_pairs::measures pretraining_pairs::measure(const actors::sample_key& key) const {
  sample_random random(key);
  const auto p = draw(chunks_.at(static_cast<std::size_t>(key.index)), random);
  const auto tokens = p.a.tokens + p.b.tokens + around;
  return {tokens, masked_of(tokens)};
}

void pretraining_pairs::put(const piece& p, std::vector<std::int32_t>& ids) const {
  auto skipped = p.cut;
  auto left = p.tokens;
  for (auto s = p.first; s < p.last && left > 0; ++s) {
    auto row = text_.sentences.row(s);
    const auto skip = std::min<std::int64_t>(skipped, static_cast<std::int64_t>(row.size()));
    skipped -= skip;
    row = row.subspan(static_cast<std::size_t>(skip));
    row = row.first(static_cast<std::size_t>(std::min<std::int64_t>(left, static_cast<std::int64_t>(row.size()))));
    ids.insert(ids.end(), row.begin(), row.end());
    left -= static_cast<std::int64_t>(row.size());
  }
}

pretraining_sample pretraining_pairs::make(const actors::sample_key& key) const {
  sample_random random(key);
  const auto p = draw(chunks_.at(static_cast<std::size_t>(key.index)), random);
  pretraining_sample s;
  s.ids.push_back(static_cast<std::int32_t>(options_.begin));
  put(p.a, s.ids);
  s.ids.push_back(static_cast<std::int32_t>(options_.end));
  s.second = static_cast<std::int64_t>(s.ids.size());
  put(p.b, s.ids);
  s.ids.push_back(static_cast<std::int32_t>(options_.end));
  s.is_random = p.is_random;
  mask(s, random);
  return s;
}

void pretraining_pairs::mask(pretraining_sample& s, sample_random& random) const {
  const auto tokens = static_cast<std::int64_t>(s.ids.size());
  std::vector<std::int64_t> places(static_cast<std::size_t>(tokens - around));
  std::iota(places.begin(), places.end(), std::int64_t{1});
  for (auto& place : places)
    if (place >= s.second - 1) ++place; // the [SEP] between
  const auto count = static_cast<std::size_t>(masked_of(tokens));
  for (std::size_t i = 0; i < count; ++i) {
    const auto left = static_cast<std::int64_t>(places.size() - i);
    std::swap(places[i], places[i + static_cast<std::size_t>(random.below(left))]);
  }
  places.resize(count);
  std::sort(places.begin(), places.end());
  for (const auto place : places) {
    auto& id = s.ids[static_cast<std::size_t>(place)];
    s.answers.push_back(id);
    const auto chance = random.below(10);
    if (chance < 8) id = static_cast<std::int32_t>(options_.mask);
    if (chance == 8) id = static_cast<std::int32_t>(random.below(options_.vocabulary));
  }
  s.masked = std::move(places);
}

} // namespace penstock::apps
