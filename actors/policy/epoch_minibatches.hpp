// Which samples a minibatch has, from its global id alone; and where a run drains.
#pragma once

#include "actors/dataset.hpp"

#include <cstdint>

namespace penstock::actors {

struct minibatch_range {
  std::int64_t epoch = 0;
  std::int64_t first = 0;   ///< position in the epoch's order
  std::int64_t samples = 0; ///< the last of an epoch may be smaller
};

/// Global minibatch ids count on through the epochs; every epoch has ceil(samples / batch) of them, or floor where the
/// last one is dropped for having fewer samples.
class epoch_minibatches {
public:
  epoch_minibatches(std::int64_t samples, std::int64_t batch, last_batch last = last_batch::keep);
  /// Samples of an epoch's last minibatch where it is kept and has fewer than the others; else 0.
  std::int64_t tail() const { return tail_; }
  std::int64_t per_epoch() const { return per_epoch_; }
  minibatch_range at(std::int64_t minibatch) const;

private:
  std::int64_t samples_;
  std::int64_t batch_;
  std::int64_t per_epoch_;
  std::int64_t tail_;
};

/// Where a run stops admitting, finishes what is in flight, and evaluates or writes a checkpoint. Part of the run's
/// definition (DESIGN section 2).
struct drain_plan {
  std::int64_t total = 0; ///< minibatches of the run
  std::int64_t per_epoch = 1;
  std::int64_t eval_every = 0;       ///< epochs; 0 or less: none before the end
  std::int64_t checkpoint_every = 0; ///< minibatches; 0: none before the end
  /// Every point but the end is moved up to a multiple of it: batching::column_blocks.
  std::int64_t multiple = 1;

  /// First drain point after `done` minibatches, at most `total`.
  std::int64_t next(std::int64_t done) const;
  bool evaluates_at(std::int64_t done) const; ///< before the end
  bool checkpoints_at(std::int64_t done) const;
  bool moves_checkpoints() const { return checkpoint_every % multiple != 0; }
  std::int64_t moved_up(std::int64_t point) const { return point + (multiple - point % multiple) % multiple; }
};

} // namespace penstock::actors
