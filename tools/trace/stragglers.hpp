// Who was slow: against the replicas that do the same, or by how long others waited.
#pragma once

#include "tools/trace/causes.hpp"
#include "tools/trace/intervals.hpp"

#include <string>
#include <vector>

namespace penstock::actors {

/// A rank; in a run of one process whoever runs one sequence of actions: a stage replica, or a replica of all the
/// stages of a position.
struct worker_summary {
  int rank = -1; ///< -1: of a run in one process
  int stage = 0; ///< of the replica that is slowest beside its siblings
  int replica = 0;
  double busy = 0; ///< share of the sections in forwards, backwards and updates, mean over its replicas
  /// A micro-batch's forward and backward against the median of the stage's other replicas; 1 without others.
  double against_siblings = 1;
  bool is_straggler = false;     ///< at least a tenth slower than its siblings, and not by chance
  double waited_for_seconds = 0; ///< that replicas on other workers had nothing to run until it had computed something
};

/// By rank, or by stage and replica.
std::vector<worker_summary> summarize_workers(const trace_header& header, const std::vector<trace_record>& records,
                                              const span_causes& causes, const std::vector<time_section>& sections);

/// The straggler that is slowest beside its siblings; without one, whom the others waited for longest. Null where no
/// one waited.
const worker_summary* slowest_worker(const std::vector<worker_summary>& workers);

/// "rank 2 on host b", "stage 1 replica 0".
std::string name_of(const worker_summary& worker, const trace_header& header);

} // namespace penstock::actors
