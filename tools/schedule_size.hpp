// How many actions a command may be asked to play.
#pragma once

#include "planner/schedule.hpp"

#include <cstdint>

namespace penstock::tools {

/// Throws usage_error, before memory is spent, where so many minibatches of the schedule are more forwards than a few
/// hundred megabytes of spans hold.
void check_schedule_size(const planner::schedule& shape, std::int64_t minibatches);

} // namespace penstock::tools
