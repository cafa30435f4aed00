// The update lags d_s a schedule is made with.
#pragma once

#include "planner/presets.hpp"
#include "planner/schedule.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::planner {

/// `--update-lag`: D, or D_0,D_1,... Throws std::invalid_argument, one line, for anything else and for one that is
/// below 0 or beyond any use.
std::vector<std::int64_t> parse_update_lag(std::string_view text);

/// True where an update may lag: weights are stashed and an update takes a group of minibatches (pipedream).
bool may_lag(const preset& p);

/// d_s of every stage. Throws std::invalid_argument, one line: a schedule that has no lag, another count than one for
/// all or one per stage, a lag out of range.
std::vector<std::int64_t> resolve_update_lag(const preset& p, const schedule_request& request);

} // namespace penstock::planner
