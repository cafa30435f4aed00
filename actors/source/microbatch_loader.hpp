// Loads the samples of one micro-batch.
#pragma once

#include "actors/dataset.hpp"
#include "actors/source/data_binding.hpp"
#include "actors/source/source_core.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/segment.hpp"

#include <memory>

namespace penstock::actors {

/// Thread safe.
class microbatch_loader {
public:
  /// Throws usage_error for data that the model cannot read.
  microbatch_loader(std::shared_ptr<const model> net, const dataset& data, const batching& how, int microbatches);
  /// Throws what the data set throws.
  loaded_microbatch load(std::int64_t minibatch, std::int32_t microbatch);
  /// Of all minibatches of an epoch: a column of a stream counts in each of them.
  std::int64_t samples_of_epoch() const { return samples_; }
  const minibatch_list& minibatches() const { return *minibatches_; }

private:
  std::shared_ptr<const model> net_;
  std::vector<data_input> inputs_;
  std::vector<std::string> extents_; // the data set's
  data_binding binding_;
  minibatches_ptr minibatches_;
  std::int64_t samples_;
  int microbatches_;
  int column_blocks_; // 0: minibatches are independent of each other
  memory_pool pool_;
};

/// Of a loaded micro-batch, what that range of the model is fed, in the order of segment::fed().
std::vector<tensor> fed_of(const segment& layers, const loaded_microbatch& loaded);

} // namespace penstock::actors
