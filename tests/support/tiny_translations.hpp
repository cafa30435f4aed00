// Pairs of sequences for models that translate: both sides of lengths of their own, in buckets.
#pragma once

#include "actors/dataset.hpp"

namespace penstock::testing {

/// Inputs source, source_lengths, target_in, labels as GNMT's. Sources of 1 to 7 tokens, targets of 0 to 6 that count;
/// a minibatch is as wide as its longest samples, to the next even number. Nothing is shuffled.
class tiny_translations : public actors::dataset {
public:
  explicit tiny_translations(std::int64_t samples, std::uint64_t seed = 1) : samples_(samples), seed_(seed) {}
  std::int64_t size() const override { return samples_; }
  std::string description() const override { return "tiny translations"; }
  std::vector<actors::data_input> inputs() const override;
  std::vector<std::string> counts() const override { return {"samples", "tokens"}; }
  std::vector<std::string> extents() const override { return {"source_time", "target_time"}; }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

  static constexpr std::int64_t vocabulary = 13;
  std::int64_t source_length(std::int64_t sample) const { return 1 + mixed(sample, 100) % 7; }
  std::int64_t target_length(std::int64_t sample) const { return mixed(sample, 200) % 7; }
  /// 4 to 12.
  std::int64_t token(std::int64_t sample, std::int64_t side, std::int64_t at) const {
    return 4 + mixed(sample, 10 * side + at) % (vocabulary - 4);
  }

private:
  std::int64_t mixed(std::int64_t a, std::int64_t b) const;
  std::int64_t samples_;
  std::uint64_t seed_;
};

} // namespace penstock::testing
