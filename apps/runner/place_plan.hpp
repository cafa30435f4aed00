// Which process of a job runs what of a plan.
#pragma once

#include "actors/run_options.hpp"
#include "planner/plan/plan.hpp"

namespace penstock::apps {

/// Ranks by a plan's devices "TYPE:R", which are the ranks where there are as many as the job has processes or fewer.
/// Leaves `run` as it is where the plan names none, or was made for another number of processes.
void place_by_devices(const planner::plan& p, int processes, actors::run_options& run);

} // namespace penstock::apps
