// Deals an epoch's order into buckets and cuts them into minibatches.
#include "apps/data/length_buckets.hpp"

#include "actors/dataset.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace penstock::apps {

namespace {

constexpr std::int64_t own_width = 5;
constexpr std::int64_t own_buckets = 10;

std::int64_t rounded_up(std::int64_t length, std::int64_t to) {
  return (length + to - 1) / to * to;
}

} // namespace

length_buckets::length_buckets(std::vector<std::vector<std::int32_t>> lengths, std::vector<std::int64_t> most,
                               const bucket_options& options)
    : lengths_(std::move(lengths)), most_(std::move(most)), options_(options) {
  check(!lengths_.empty() && lengths_.size() == most_.size(), "samples have a side, and each side a longest");
  for (std::size_t side = 0; side < lengths_.size(); ++side) {
    check(!lengths_[side].empty() && lengths_[side].size() == lengths_[0].size(), "each side has the same samples");
    for (const auto length : lengths_[side])
      check(length >= 0 && length <= most_[side], "a length lies within its side's longest");
  }
  check(options_.width >= 0 && options_.batch > 0 && options_.batch_tokens >= 0, "buckets and minibatches have a size");
  choose_width();
  size_buckets();
}

std::int64_t length_buckets::longest_side(std::size_t sample) const {
  std::int64_t longest = 1; // an empty sample is as long as one of a token
  for (const auto& side : lengths_)
    longest = std::max<std::int64_t>(longest, side[sample]);
  return longest;
}

void length_buckets::choose_width() {
  std::vector<std::int64_t> lengths;
  for (std::size_t sample = 0; sample < lengths_[0].size(); ++sample)
    lengths.push_back(longest_side(sample));
  std::sort(lengths.begin(), lengths.end());
  const bool chooses = options_.width == 0;
  const auto usual = lengths[(lengths.size() - 1) - (lengths.size() - 1) / 100];
  if (chooses) options_.width = std::max(own_width, (usual + own_buckets - 1) / own_buckets);
  last_bucket_ = (lengths.back() - 1) / options_.width;
  if (chooses) last_bucket_ = std::min(last_bucket_, own_buckets - 1);
}

std::int64_t length_buckets::bucket_of(std::size_t sample) const {
  return std::min((longest_side(sample) - 1) / options_.width, last_bucket_);
}

void length_buckets::size_buckets() {
  buckets_.resize(static_cast<std::size_t>(last_bucket_) + 1);
  std::vector<std::int64_t> longest(buckets_.size());
  for (std::size_t sample = 0; sample < lengths_[0].size(); ++sample) {
    const auto b = static_cast<std::size_t>(bucket_of(sample));
    ++buckets_[b].samples;
    longest[b] = std::max(longest[b], longest_side(sample));
  }
  least_samples_ = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& bucket = buckets_[b];
    if (bucket.samples == 0) continue;
    const auto padded =
        std::min(static_cast<std::int64_t>(b + 1) * options_.width, *std::max_element(most_.begin(), most_.end()));
    bucket.batch = options_.batch_tokens > 0 ? options_.batch_tokens / padded : options_.batch;
    if (bucket.batch == 0)
      throw usage_error("--batch-tokens: found " + std::to_string(options_.batch_tokens) + ", wanted at least " +
                        std::to_string(padded) + ", which samples take that are padded");
    const auto whole = bucket.samples / bucket.batch;
    const auto rest = options_.last == actors::last_batch::keep ? bucket.samples % bucket.batch : 0;
    per_epoch_ += whole + (rest > 0 ? 1 : 0);
    for (const auto samples : {whole > 0 ? bucket.batch : 0, rest})
      if (samples > 0) least_samples_ = least_samples_ == 0 ? samples : std::min(least_samples_, samples);
  }
  if (per_epoch_ == 0)
    throw usage_error("--last-batch drop: found no bucket of lengths with samples for a whole minibatch, wanted a "
                      "smaller --batch or `keep`");
}

length_buckets::epoch_layout length_buckets::lay_out(std::int64_t epoch) const {
  const auto samples = static_cast<std::int64_t>(lengths_[0].size());
  epoch_layout layout;
  layout.order.resize(static_cast<std::size_t>(samples));
  std::vector<std::int64_t> next(buckets_.size()); // where a bucket's next sample goes
  for (std::size_t b = 1; b < buckets_.size(); ++b)
    next[b] = next[b - 1] + buckets_[b - 1].samples;
  std::vector<sample_range> slices;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto& bucket = buckets_[b];
    for (std::int64_t first = 0; first < bucket.samples; first += bucket.batch) {
      const auto size = std::min(bucket.batch, bucket.samples - first);
      if (size == bucket.batch || options_.last == actors::last_batch::keep) slices.push_back({next[b] + first, size});
    }
  }
  for (const auto sample : actors::epoch_order(samples, options_.seed, epoch, options_.is_shuffled)) {
    const auto b = static_cast<std::size_t>(bucket_of(static_cast<std::size_t>(sample)));
    layout.order[static_cast<std::size_t>(next[b]++)] = sample;
  }
  // Another stream than the samples', which the same seed and epoch would give.
  for (const auto number : actors::epoch_order(per_epoch_, ~options_.seed, epoch, options_.is_shuffled))
    layout.minibatches.push_back(slices[static_cast<std::size_t>(number)]);
  return layout;
}

length_buckets::layout_ptr length_buckets::layout_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, layout] : layouts_)
    if (known == epoch) return layout;
  if (layouts_.size() >= 2) layouts_.erase(layouts_.begin());
  layouts_.emplace_back(epoch, std::make_shared<const epoch_layout>(lay_out(epoch)));
  return layouts_.back().second;
}

std::vector<std::int64_t> length_buckets::extents_of(std::span<const std::int64_t> samples) const {
  std::vector<std::int64_t> extents;
  for (std::size_t side = 0; side < lengths_.size(); ++side) {
    std::int64_t longest = 1;
    for (const auto sample : samples)
      longest = std::max<std::int64_t>(longest, lengths_[side][static_cast<std::size_t>(sample)]);
    extents.push_back(std::min(rounded_up(longest, options_.width), most_[side]));
  }
  return extents;
}

bucketed_minibatch length_buckets::at(std::int64_t number) const {
  check(number >= 0, "minibatches are counted from 0");
  const auto epoch = number / per_epoch_;
  const auto layout = layout_of(epoch);
  const auto& slice = layout->minibatches[static_cast<std::size_t>(number % per_epoch_)];
  const auto samples =
      std::span(layout->order).subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.samples));
  return {.epoch = epoch, .samples = samples, .extents = extents_of(samples), .keeps = layout};
}

padding_summary length_buckets::padding(std::int64_t epoch) const {
  padding_summary summary;
  std::set<std::vector<std::int64_t>> shapes;
  for (std::int64_t i = 0; i < per_epoch_; ++i) {
    const auto minibatch = at(epoch * per_epoch_ + i);
    ++summary.minibatches;
    shapes.insert(minibatch.extents);
    for (std::size_t side = 0; side < lengths_.size(); ++side) {
      summary.padded_slots += minibatch.extents[side] * static_cast<std::int64_t>(minibatch.samples.size());
      for (const auto sample : minibatch.samples)
        summary.tokens += lengths_[side][static_cast<std::size_t>(sample)];
    }
  }
  summary.shapes = shapes.size();
  return summary;
}

} // namespace penstock::apps
