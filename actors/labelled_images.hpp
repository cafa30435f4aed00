// Samples of one shape with a label each, loaded one by one.
#pragma once

#include "actors/dataset.hpp"

namespace penstock::actors {

/// Says how sample `index` is augmented in an epoch, independent of threads and partition.
struct sample_key {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;
};

/// A fixed list of samples: the model's inputs "input" (f32) and "labels" (i64). Thread safe: `load` is called from
/// several loader threads at once.
class labelled_images : public dataset {
public:
  virtual tensor_spec input() const = 0; ///< one sample, without the batch extent
  virtual std::int64_t classes() const = 0;
  virtual bool shuffled() const { return true; } ///< false: file order (`tensors:`)
  /// Writes one sample, row-major, and returns its label in [0, classes). Augments by `key` only when `training`.
  /// Throws penstock::error naming the file.
  virtual std::int64_t load(const sample_key& key, bool training, float* input) const = 0;

  std::vector<data_input> inputs() const override;
  /// Every epoch has ceil(samples / batch) of them, or floor where the last one is dropped for having fewer samples.
  /// What they load is refused with penstock::error for a number that is not finite and a label out of range.
  minibatches_ptr minibatches(const batching& how) const override;
};

} // namespace penstock::actors
