// From one drain to the next: what all parts of a run are told when it begins, and when it ends earlier.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/safetensors.hpp"
#include "planner/schedule.hpp"

#include <cstdint>
#include <memory>

namespace penstock::actors {

/// Immutable, shared by all parts.
struct stretch {
  planner::schedule schedule;       ///< of its minibatches
  std::int64_t number = 0;          ///< drains before it
  std::int64_t first_minibatch = 0; ///< global id of tau 0
  minibatches_ptr data{};           ///< its minibatches; null: nothing to say of them
  /// Where minibatches continue each other: batch columns, and the blocks that minibatches take in turn; else 0 and 1.
  std::int64_t columns = 0;
  int column_blocks = 1;
  /// What was carried so far, of all columns, plain, by name: each replica begins with its part of it. Null: with what
  /// it has.
  std::shared_ptr<const named_tensors> carried{};

  std::int64_t average_from = -1; ///< minibatches after which weights are averaged under asgd_patience; -1: not yet

  /// The factor on the learning rate that belongs to a minibatch.
  double rate_of(std::int64_t minibatch) const { return data ? data->rate(minibatch) : 1; }
};
using stretch_ptr = std::shared_ptr<const stretch>;

/// The least number of minibatches of the stretch, from that one on, after which each column block has had its turn.
inline std::int64_t whole_rounds(const stretch& run, std::int64_t minibatches) {
  const auto over = (run.first_minibatch + minibatches) % run.column_blocks;
  return over == 0 ? minibatches : minibatches + run.column_blocks - over;
}

/// Coordinator to all parts: a stretch of training begins.
struct begin_training_msg {
  stretch_ptr run;
};
/// Coordinator to all parts: it ends after so many minibatches, fewer than planned. Nothing beyond was admitted. It
/// sets a source going again that was told to pause.
struct end_after_msg {
  std::int64_t stretch = 0;
  std::int64_t minibatches = 0; ///< of an evaluation: batches
};

} // namespace penstock::actors
