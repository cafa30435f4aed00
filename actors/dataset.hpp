// Where samples come from. The source actor's loader threads call this.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/microbatch_info.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace penstock::actors {

/// What becomes of the samples that fill no minibatch at the end of an epoch.
enum class last_batch : std::uint8_t { keep, drop };

/// How a run divides a data set into minibatches.
struct batching {
  std::int64_t batch = 1; ///< samples of a minibatch
  last_batch last = last_batch::keep;
  std::uint64_t seed = 0;
  bool training = true; ///< shuffled and augmented, as the data set has it
  /// Of data whose minibatches continue each other (dataset::columns): how many blocks its columns are divided into.
  /// Minibatch m of the epoch takes column block m mod column_blocks, time block m div column_blocks.
  int column_blocks = 1;
};

/// One of the inputs that a data set offers, by the model's name for it.
struct data_input {
  std::string name;
  tensor_spec spec;                      ///< of one sample, without the batch extent; nominal where extents vary
  std::vector<std::string> extents = {}; ///< by axis: the name of the model's extent that it is; "" or none: fixed
  std::int64_t below = 0;                ///< integers lie in [0, below); 0: not said
};

/// What is known of a minibatch before any of it is loaded. A pure function of the run's definition.
struct minibatch_facts {
  std::int64_t epoch = 0;
  std::int64_t samples = 0;
  std::array<double, most_counts> counts{};         ///< by dataset::counts()
  std::array<std::int64_t, most_extents> extents{}; ///< by dataset::extents()
  std::int64_t column = 0;                          ///< of its first sample, where minibatches continue each other
};

/// Shape of that input for so many samples of a minibatch; `names`: dataset::extents().
shape dims_of(const data_input& input, const std::vector<std::string>& names, const minibatch_facts& of,
              std::int64_t samples);

/// The minibatches of a data set, by global id, which counts on through the epochs. Thread safe.
class minibatch_list {
public:
  virtual ~minibatch_list() = default;
  /// Minibatches of each epoch.
  virtual std::int64_t per_epoch() const = 0;
  virtual minibatch_facts facts(std::int64_t minibatch) const = 0;
  /// A factor on the learning rate of the minibatch's update. Every stage asks at every update, so it is quick.
  virtual double rate(std::int64_t minibatch) const { return (void)minibatch, 1; }
  /// Fills plain tensors [samples, ...], one for each of dataset::inputs(), with the samples of the minibatch from
  /// `first` on. Throws penstock::error that names the place.
  virtual void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const = 0;
  /// The fewest samples that a minibatch has.
  virtual std::int64_t least_samples() const = 0;
  /// For the log, what there is to say of an epoch's minibatches; "": nothing.
  virtual std::string description() const { return ""; }
};
using minibatches_ptr = std::shared_ptr<const minibatch_list>;

/// Thread safe.
class dataset {
public:
  virtual ~dataset() = default;
  virtual std::int64_t size() const = 0;       ///< samples of an epoch
  virtual std::string description() const = 0; ///< one line for the log
  virtual std::vector<data_input> inputs() const = 0;
  /// What it counts in a minibatch: "samples" first.
  virtual std::vector<std::string> counts() const { return {"samples"}; }
  /// Extents that vary, by the model's names.
  virtual std::vector<std::string> extents() const { return {}; }
  /// Batch columns of an epoch where each minibatch continues the one before: with minibatches of so many samples a
  /// column block each. 0 where minibatches are independent of each other.
  virtual std::int64_t columns(const batching&) const { return 0; }
  /// The data set outlives them. Throws usage_error for a batching that gives no minibatch.
  virtual minibatches_ptr minibatches(const batching& how) const = 0;
};

/// Order of the samples in an epoch: a permutation that derives from (seed, epoch) alone; the identity when not
/// shuffled.
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffled);

/// The same, kept for the two epochs that a pipeline can straddle. Thread safe.
class epoch_orders {
public:
  using order_ptr = std::shared_ptr<const std::vector<std::int64_t>>;
  epoch_orders(std::int64_t samples, std::uint64_t seed, bool shuffled)
      : samples_(samples), seed_(seed), shuffled_(shuffled) {}
  order_ptr of(std::int64_t epoch) const;

private:
  std::int64_t samples_;
  std::uint64_t seed_;
  bool shuffled_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, order_ptr>> orders_;
};

} // namespace penstock::actors
