// What the searches propose for every setting, before anything is simulated.
#pragma once

#include "planner/explore/trial.hpp"

#include <vector>

namespace penstock::planner {

/// The first `count` devices with the levels of links that join them.
cluster first_devices(const cluster& c, int count);

/// Partitions from every search that applies, distinct for their schedule and M, cheapest first under the searches'
/// cost model: search_flat always (beyond 64 devices on several levels as if the outermost joined them all; beyond 512
/// only where the hierarchical search has nothing), search_hierarchical on several levels, 2BW's equal replicas for
/// 2bw, pure data parallelism on 2 to all devices of each type, one device of each type; search_pinned instead of all
/// of them where cuts or replicas are pinned. On streaming devices partitions that stay on the chips are sought as well
/// as others. `e.machines` is first_devices' already. Only what fits the memory under that model, but data parallelism
/// and one device are always there: so that they can be compared with, and said to be too large.
std::vector<proposal> propose(const exploration& e, const std::vector<setting>& settings, const pins& fixed);

/// Where nothing fits: the partitions that would if every device had as little more memory as possible, for the setting
/// that needs least of it. Empty where there is no partition at all.
std::vector<proposal> propose_least_missing(const exploration& e, const std::vector<setting>& settings,
                                            const pins& fixed);

/// The `count` cheapest, and beyond them a quarter as many of each schedule and the best of each schedule with each M,
/// of each origin, and of each number of stages: the searches' cost models of different schedules are not to be held
/// against each other to the last percent.
std::vector<proposal> select(std::vector<proposal> all, std::size_t count);

} // namespace penstock::planner
