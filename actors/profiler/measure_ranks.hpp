// Measures the processes of a job for the planner: what each has, and what a message between them costs.
#pragma once

#include "actors/ranks/job.hpp"
#include "planner/cluster/cluster.hpp"

#include <functional>

namespace penstock::actors {

/// The job as a cluster whose device "cpu:R" is rank R: one level, or hosts of equal numbers of consecutive ranks
/// joined by a second one. Each level has the latency and the bandwidth of its slowest measured link: between
/// neighbours inside every host, and between neighbouring hosts. Every rank calls it; rank 0's result is the cluster.
/// `say` gets a line for each link, on rank 0. Throws penstock::error when a rank does not answer.
planner::cluster measure_ranks(const job& ranks, const std::function<void(const std::string&)>& say);

} // namespace penstock::actors
