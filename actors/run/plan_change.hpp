// Another plan takes over at a drain.
#pragma once

#include "planner/plan/execution_plan.hpp"

#include <cstdint>

namespace penstock::actors {

struct plan_change {
  std::int64_t step = 0;  ///< minibatches of the whole run after which it takes over
  planner::plan_ptr plan; ///< settled for the job
};

/// One that took place.
struct taken_change : plan_change {
  double seconds = 0;           ///< from the drained pipeline to the one that can begin
  std::int64_t bytes_moved = 0; ///< between ranks, all of them together
};

} // namespace penstock::actors
