// The schedule that a trace's header names.
#pragma once

#include "actors/trace/record.hpp"
#include "planner/schedule.hpp"

#include <cstdint>

namespace penstock::actors {

/// Asks for the header's schedule over `minibatches` of them. Whoever resolves it handles std::invalid_argument: a
/// header may name a schedule that this version does not know.
planner::schedule_request request_of(const trace_header& header, std::int64_t minibatches = 0);

} // namespace penstock::actors
