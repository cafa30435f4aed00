// Loads the samples of one micro-batch.
#pragma once

#include "actors/dataset.hpp"
#include "actors/policy/epoch_minibatches.hpp"
#include "actors/source/source_core.hpp"
#include "kernels/memory_pool.hpp"

#include <memory>
#include <mutex>

namespace penstock::actors {

/// Thread safe. The order of an epoch is computed once and kept for the two epochs that a pipeline can straddle.
class microbatch_loader {
public:
  microbatch_loader(const dataset& data, std::int64_t batch, int microbatches, std::uint64_t seed, bool training,
                    last_batch last = last_batch::keep);
  /// Throws what the data set throws, and penstock::error for a label out of range.
  loaded_microbatch load(std::int64_t minibatch, std::int32_t microbatch);
  const epoch_minibatches& plan() const { return plan_; }

private:
  using order_ptr = std::shared_ptr<const std::vector<std::int64_t>>;
  order_ptr order_of(std::int64_t epoch);

  const dataset& data_;
  epoch_minibatches plan_;
  int microbatches_;
  std::uint64_t seed_;
  bool training_;
  memory_pool pool_;
  std::mutex mutex_;
  std::vector<std::pair<std::int64_t, order_ptr>> orders_;
};

} // namespace penstock::actors
