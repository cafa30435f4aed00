// Random durations that depend on what is done, not on when.
#pragma once

#include "planner/machine.hpp"

namespace penstock::planner {

/// The factor on an action's time: log-normal with mean 1 and options.jitter as its coefficient of variation. The same
/// for the same seed, place and action whatever the schedule and the rest of the machine, so that runs under different
/// schedules see common random numbers.
double jitter_of(const machine_options& options, int stage, int replica, const action& a);

} // namespace penstock::planner
