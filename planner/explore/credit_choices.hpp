// The credits K_s worth trying for a partition: what they buy (overlap) against what they cost (memory, staleness).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::planner {

/// Lists of K_s, one per stage, each valid for the schedule ((K_s - 1) R_s never grows, 2bw's M suffices) and each
/// once, the tight one first. For schedules with free credits: tight (V_s), a quarter, half and three quarters of the
/// way to doubled, doubled (2 V_s - 1), rule 2's full ones for `link_periods` (seconds of the slowest link over seconds
/// from one micro-batch to the next), and for asynchronous ones tight with at least 2 where a stage is replicated, so
/// that its all-reduce hides behind the next minibatch. Under a flush never more than a replica's share of M.
std::vector<std::vector<std::int64_t>> credit_choices(const std::string& schedule, const std::vector<int>& replicas,
                                                      int microbatches, double link_periods);

} // namespace penstock::planner
