// The credits K_s a schedule is made with.
#pragma once

#include "planner/presets.hpp"
#include "planner/schedule.hpp"

namespace penstock::planner {

/// K_s of every stage for this request and its resolved M. model-parallel has K = 1 whatever mode is asked, and gpipe
/// never less than its share of a minibatch; credits that are given are taken as they are. A frozen stage has 1 unless
/// it is given more, and no rule holds it to its neighbours. Throws std::invalid_argument if given ones have the wrong
/// count, are below 1, can deadlock, or do not fit the schedule.
std::vector<std::int64_t> resolve_credits(const preset& p, const schedule_request& request, int microbatches);

} // namespace penstock::planner
