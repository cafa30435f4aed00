// What a trace of several clocks says must have come first.
#pragma once

#include "actors/trace/clocks.hpp"
#include "actors/trace/record.hpp"

#include <vector>

namespace penstock::actors {

/// Bounds between the clocks of ranks: a message is sent before it is received, and a replicated stage's update comes
/// after every replica began the last part of the gradients that it sums. Only the tightest of each two clocks.
/// `clock_of_rank` gives each record's clock by its rank. Slacks beyond +-most_clock_slack_ns are given as they are.
std::vector<clock_bound> clock_bounds(const trace_header& header, const std::vector<trace_record>& records,
                                      const std::vector<int>& clock_of_rank);

} // namespace penstock::actors
