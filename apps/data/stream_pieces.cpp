// Columns as AWD-LSTM's, and its random lengths.
#include "apps/data/stream_pieces.hpp"

#include "actors/dataset.hpp"
#include "apps/data/sample_random.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

constexpr std::int64_t least_steps = 5;
constexpr std::uint64_t stream_of_lengths = 0xB977; // apart from the order of an epoch, which the same seed gives

// max(5, int(normal(length, 5))), with half the length for one in twenty.
std::int64_t random_length(sample_random& random, std::int64_t length) {
  constexpr float deviation = 5;
  const float middle = static_cast<float>(length) / (random.below(20) == 0 ? 2.0F : 1.0F);
  return std::max(least_steps, static_cast<std::int64_t>(middle + deviation * random.normal()));
}

std::vector<std::int64_t> draw(std::int64_t steps, std::int64_t length, std::uint64_t seed) {
  sample_random random(sample_random::mixed(seed, stream_of_lengths));
  std::vector<std::int64_t> lengths;
  while (steps > 0) {
    const auto next = std::min(steps, random_length(random, length));
    steps -= next;
    if (next < least_steps && !lengths.empty())
      lengths.back() += next;
    else
      lengths.push_back(next);
  }
  return lengths;
}

std::vector<std::int64_t> even(std::int64_t steps, std::int64_t length) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(steps / length), length);
  if (steps % length > 0) lengths.push_back(steps % length);
  return lengths;
}

} // namespace

column_layout column_layout::of(std::int64_t tokens, std::int64_t columns, bool training) {
  const auto total = tokens - 1;
  if (training) return {.stride = tokens / columns, .steps = tokens / columns - 1, .total = total};
  const auto steps = (total + columns - 1) / columns;
  return {.stride = steps, .steps = steps, .total = total};
}

std::int64_t column_layout::counted(std::int64_t column, std::int64_t first, std::int64_t count) const {
  const auto inside = std::min(count, steps - first);
  return std::clamp<std::int64_t>(total - begin(column, first), 0, inside);
}

stream_pieces::stream_pieces(std::int64_t steps, std::int64_t length, std::uint64_t seed, bool training)
    : drawn_(training ? draw(steps, length, seed) : even(steps, length)), seed_(seed), is_shuffled_(training) {
  check(!drawn_.empty(), "a column of a stream has something to predict");
}

stream_pieces::layout_ptr stream_pieces::layout_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, layout] : layouts_)
    if (known == epoch) return layout;
  auto made = std::make_shared<std::vector<stream_piece>>();
  std::int64_t first = 0;
  for (const auto i : actors::epoch_order(count(), seed_, epoch, is_shuffled_)) {
    made->push_back({first, drawn_[static_cast<std::size_t>(i)]});
    first += made->back().steps;
  }
  constexpr std::size_t kept = 2;
  if (layouts_.size() >= kept) layouts_.erase(layouts_.begin());
  layouts_.emplace_back(epoch, std::move(made));
  return layouts_.back().second;
}

stream_piece stream_pieces::at(std::int64_t epoch, std::int64_t piece) const {
  return layout_of(epoch)->at(static_cast<std::size_t>(piece));
}

} // namespace penstock::apps
