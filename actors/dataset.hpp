// Where samples come from. The source actor's loader threads call this.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::actors {

/// Says how sample `index` is augmented in an epoch, independent of threads and partition.
struct sample_key {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;
};

/// A fixed list of samples. Thread safe: `load` is called from several loader threads at once.
class dataset {
public:
  virtual ~dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual tensor_spec input() const = 0; ///< one sample, without the batch extent
  virtual std::int64_t classes() const = 0;
  virtual bool shuffled() const { return true; } ///< false: file order (`tensors:`)
  /// Writes one sample, row-major, and returns its label in [0, classes). Augments by `key` only when `training`.
  /// Throws penstock::error naming the file.
  virtual std::int64_t load(const sample_key& key, bool training, float* input) const = 0;
  virtual std::string description() const = 0; ///< one line for the log
};

/// Order of the samples in an epoch: a permutation that derives from (seed, epoch) alone; the identity when not
/// shuffled.
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffled);

} // namespace penstock::actors
