// Measures this machine for the planner: what workers it has room for, and what it costs to hand a tensor on.
#pragma once

#include "planner/cluster/cluster.hpp"

#include <functional>
#include <string>

namespace penstock::actors {

/// Memory of this machine that is free for use. Throws penstock::error when the system does not say.
double available_memory_bytes();

/// As the system names it; "unknown" where it does not.
std::string processor_name();

/// Median seconds of a step of a pipeline whose stages compute nothing but for the first, with one minibatch in flight.
/// Throws usage_error for less than one stage or 16 steps. `should_stop` is asked at every step; when it says so,
/// penstock::error is thrown.
double idle_step_seconds(int stages, std::int64_t steps, const std::function<bool()>& should_stop = {});

/// Median seconds from the end of one stage's work to the start of the next one's in the same process: the message, the
/// actor and the wake-up of its stream; from `steps` steps of two idle pipelines.
double measure_hop_seconds(std::int64_t steps = 2000, const std::function<bool()>& should_stop = {});

/// Bytes a second at which one worker reads what another has just written, median of several tries with blocks of
/// `bytes`. Workers are pinned to the first cores of their shares, as in a run.
double measure_read_bytes_per_s(int workers, std::size_t bytes = std::size_t{16} << 20);

/// The workers of one process as a cluster of one level: `workers` devices "cpu" with their share of the cores and of
/// the memory, links by reference, latency and bandwidth as measured. Throws usage_error for fewer than one worker, and
/// penstock::error when `should_stop` said so.
planner::cluster measure_machine(int workers, const std::function<bool()>& should_stop = {});

} // namespace penstock::actors
