// A small sequence model with everything that images do not have: integer inputs that several stages read, extents that
// vary, a loss before the last stage, losses that are divided by other counts; and data for it.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"

namespace penstock::testing {

/// Sequences of ids below `vocabulary`, of 1 to 9 tokens, in buckets of width 3: a minibatch has one bucket's width.
/// Some labels are left out (-100), of some samples all. Inputs ids, lengths, labels, parity (0 or 1, by sample).
class tiny_sequences : public actors::dataset {
public:
  explicit tiny_sequences(std::int64_t samples, std::uint64_t seed = 1) : samples_(samples), seed_(seed) {}
  std::int64_t size() const override { return samples_; }
  std::string description() const override { return "tiny sequences"; }
  std::vector<actors::data_input> inputs() const override;
  std::vector<std::string> counts() const override { return {"samples", "tokens"}; }
  std::vector<std::string> extents() const override { return {"time"}; }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;
  /// No label of the minibatch with this id counts; -1: of none.
  std::int64_t uncounted = -1;

  static constexpr std::int64_t vocabulary = 11;
  std::int64_t length(std::int64_t sample) const { return 1 + (sample * 7 + static_cast<std::int64_t>(seed_)) % 9; }
  std::int64_t token(std::int64_t sample, std::int64_t at) const;
  std::int64_t label(std::int64_t sample, std::int64_t at) const;

private:
  std::int64_t samples_;
  std::uint64_t seed_;
};

/// embed position attend1 fc1 gelu parity attend2 fc2 norm head; losses "tokens" and, after fc1, "parity" (by samples,
/// weight 0.3).
/// `tied`: the head's weight is embed's, and so is one of a layer in the middle.
std::shared_ptr<const model> tiny_sequence_model(float dropout = 0.1F, bool tied = false);

} // namespace penstock::testing
