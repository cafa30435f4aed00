// Minibatches of a data set of token sequences, by their global number.
#include "apps/data/bucketed_text.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::apps {

namespace {

class bucketed_minibatches final : public actors::minibatch_list {
public:
  bucketed_minibatches(const bucketed_text& data, const actors::batching& how)
      : data_(data), how_(how), buckets_(data.buckets(how)) {}

  std::int64_t per_epoch() const override { return buckets_.per_epoch(); }
  std::int64_t least_samples() const override { return buckets_.least_samples(); }

  std::string description() const override {
    const auto padding = buckets_.padding();
    const auto tenths = std::llround(1000 * padding.share());
    return std::to_string(padding.minibatches) + " minibatches of " + std::to_string(padding.shapes) +
           (padding.shapes == 1 ? " shape, " : " shapes, ") + std::to_string(tenths / 10) + "." +
           std::to_string(tenths % 10) + "% padding";
  }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto one = buckets_.at(minibatch);
    actors::minibatch_facts facts{.epoch = one.epoch,
                                  .samples = static_cast<std::int64_t>(one.samples.size()),
                                  .counts = data_.counted(drawing_of(one), one.samples)};
    std::copy(one.extents.begin(), one.extents.end(), facts.extents.begin());
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto one = buckets_.at(minibatch);
    const auto samples = into[0].dim(0);
    data_.fill(drawing_of(one), one.samples.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(samples)),
               into);
  }

private:
  // An evaluation draws the same in every epoch.
  bucketed_text::drawing drawing_of(const bucketed_minibatch& one) const {
    return {.seed = how_.seed, .epoch = how_.training ? one.epoch : 0, .training = how_.training};
  }

  const bucketed_text& data_;
  actors::batching how_;
  length_buckets buckets_;
};

} // namespace

std::int64_t bucketed_text::size() const {
  return static_cast<std::int64_t>(sides_[0].lengths.size());
}

std::vector<std::string> bucketed_text::extents() const {
  std::vector<std::string> names;
  for (const auto& one : sides_)
    names.push_back(one.extent);
  return names;
}

std::array<double, most_counts> bucketed_text::counted(const drawing&, std::span<const std::int64_t> samples) const {
  std::int64_t tokens = 0;
  for (const auto& one : sides_)
    for (const auto sample : samples)
      tokens += one.lengths[static_cast<std::size_t>(sample)];
  return {static_cast<double>(samples.size()), static_cast<double>(tokens)};
}

length_buckets bucketed_text::buckets(const actors::batching& how) const {
  std::vector<std::vector<std::int32_t>> lengths;
  std::vector<std::int64_t> most;
  for (const auto& one : sides_) {
    lengths.push_back(one.lengths);
    most.push_back(one.most);
  }
  return {std::move(lengths),
          std::move(most),
          {.width = options_.bucket_width,
           .batch = how.batch,
           .batch_tokens = options_.batch_tokens,
           .last = how.last,
           .seed = how.seed,
           .is_shuffled = how.training}};
}

actors::minibatches_ptr bucketed_text::minibatches(const actors::batching& how) const {
  return std::make_shared<bucketed_minibatches>(*this, how);
}

} // namespace penstock::apps
