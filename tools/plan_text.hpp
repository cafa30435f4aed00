// A plan as a person reads it: a summary, a table of its stages, a table of what was considered.
#pragma once

#include "planner/machine.hpp"
#include "planner/plan/plan.hpp"

#include <string>

namespace penstock::tools {

std::string seconds_text(double seconds); ///< "1.23 s", "45.6 ms", "7.89 us"
std::string bytes_text(double bytes);

/// Stages, schedule, predicted step and what bounds it, why it won and what came second, and a table of the stages.
/// Several lines, the last one ended.
std::string describe_plan(const planner::plan& p);

/// A row for each plan considered: what it is, time, speed-up, memory of the fullest device, bubble, bytes a minibatch
/// and their ratio to data parallelism's, what bounds it, and why it was not taken.
std::string explain_plan(const planner::plan& p);

} // namespace penstock::tools
