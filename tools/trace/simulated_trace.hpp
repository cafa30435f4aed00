// A simulated run as a trace file: what `penstock trace` reads like a real run's.
#pragma once

#include "planner/machine.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::actors {

/// What the trace's header says beside the schedule.
struct simulated_run_names {
  std::string model;
  std::vector<std::string> stage_layers; ///< "conv1 .. fc1", one for each stage; may be empty
};

/// The packets of one complete trace. Virtual seconds become nanoseconds from 0. For each replica: forwards, backwards
/// and updates (one on replica 0 where one serves all), sends from their first byte until they arrive, receives with
/// the mailbox's depth, what of an all-reduce no computation of the replica hides, and waits with the reason the
/// runtime gives. The run needs its spans (machine_options::keep_spans). Throws penstock::error for a run longer than
/// 9e9 s or one that is not of this schedule.
std::string encode_simulated_trace(const planner::schedule& s, const planner::machine_run& run,
                                   const simulated_run_names& names);

/// Writes them to a file. Throws penstock::error naming it when that fails; then there is no file.
void write_simulated_trace(const std::filesystem::path& file, const planner::schedule& s,
                           const planner::machine_run& run, const simulated_run_names& names);

} // namespace penstock::actors
