// Another plan takes over at a drain.
#pragma once

#include "planner/plan/execution_plan.hpp"

#include <cstdint>

namespace penstock::actors {

struct plan_change {
  std::int64_t step = 0;  ///< minibatches of the whole run after which it takes over
  planner::plan_ptr plan; ///< settled for the job
};

} // namespace penstock::actors
