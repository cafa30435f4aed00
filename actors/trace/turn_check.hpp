// Whether the stages of a worker took turns as its one order says.
#pragma once

#include "actors/trace/record.hpp"
#include "actors/trace/violations.hpp"
#include "planner/schedule.hpp"

#include <vector>

namespace penstock::actors {

/// Of workers that host several stages, each of which is checked by itself elsewhere: forwards and backwards one at a
/// time, and without a window in the order of the worker's sequence. `records`: of one stretch, in order of begin,
/// whose first minibatch is `first`.
void check_turns(const trace_header& header, const planner::schedule& schedule,
                 const std::vector<const trace_record*>& records, std::int64_t first, violations& found);

} // namespace penstock::actors
