// From one drain to the next: what all parts of a run are told when it begins, and when it ends earlier.
#pragma once

#include "planner/schedule.hpp"

#include <cstdint>
#include <memory>

namespace penstock::actors {

/// Immutable, shared by all parts.
struct stretch {
  planner::schedule schedule;       ///< of its minibatches
  std::int64_t number = 0;          ///< drains before it
  std::int64_t first_minibatch = 0; ///< global id of tau 0
};
using stretch_ptr = std::shared_ptr<const stretch>;

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
