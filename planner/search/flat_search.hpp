// The exact search over partition, replication and device types.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <vector>

namespace penstock::planner {

/// The best partitions under the model, best first, distinct, at most request().top, each complete. Exact: no partition
/// into stages between states, with replicas of one type each, has a lower cost; memory is feasibility, not a penalty.
/// Stages take devices in order, stage 0 the first of its type (with several levels this fixes which links they use,
/// and the costs are those of these devices; where fewer are used, they are the last of
/// each type).
///
/// Besides the best: the best of other numbers of stages, the best straight pipeline, pure data parallelism, and where
/// states and devices are few every good cut. `origin` says "data-parallel" (one stage), "straight" (one replica each),
/// else "flat". Empty where nothing fits: least_excess_bytes says by how much.
///
/// Two limits, so that it always ends within seconds: thousands of devices (states x slots beyond 3e7) get only data
/// parallelism and straight pipelines here, the hierarchical search does better; and with flush, where states and
/// devices are many, the search keeps the few best ends of each kind instead of all (flat_table.hpp).
///
/// Dynamic programming over suffixes of states and of devices; a ceiling that starts near the bound of perfect balance
/// and rises until something is below it keeps the tables small.
std::vector<candidate> search_flat(const stage_cost& model);

/// By how many bytes the fullest device misses, in the partition where it misses least; 0 where something fits,
/// infinity where no partition is possible (more stages asked than there are devices or states). Beyond the limit of
/// devices, of straight pipelines.
double least_excess_bytes(const stage_cost& model);

} // namespace penstock::planner
