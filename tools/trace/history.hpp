// The history checker: did a run do what its schedule promises? Used by `penstock trace check` and by the tests.
#pragma once

#include "actors/trace/reader.hpp"
#include "actors/trace/record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::actors {

/// Checks the forwards, backwards and updates of a whole run (DESIGN section 10 item 5). Minibatch ids are dealt to
/// replicas from each drain's first anew. Per stage:
/// - every micro-batch is forwarded and backpropagated exactly once, on the replica that planner::replica_of names, the
///   backward after its forward, and both after the neighbour whose message they need;
/// - a forward reads the version that the schedule gives it, after the update that wrote it ended; its backward reads
/// the
///   same (under a schedule that does not stash: the newest, as the schedule says, when the window is 0);
/// - updates go up by one, on every replica alike, each after the backwards it sums (of replicas in one process whose
///   updates are all recorded as the first one's, that one's stand for all: they have one optimizer);
/// - a replica never holds more forwards without their backward than its credit;
/// - with window 0 forwards and backwards follow the list's order;
/// - a drain's work ends before the next begins, and nothing follows the run's last minibatch;
/// - every message that a stage sent was received once, and not before it was sent.
/// Where the plan changed each stretch is judged by the plan of its epoch: stages and replicas that this one has, and
/// no others; dealing, credits, updates and M; versions, which count from 0 again; the minibatches from the change to
/// the next one; and a rank begins nothing under it before it has ended all under the one before. The line then names
/// epoch and stretch. Returns the violation that began first, as one line, or nothing. `records` in order of begin, as
/// read_trace gives.
std::optional<std::string> check_history(const trace_header& header, const std::vector<trace_record>& records);

struct history_verdict {
  enum class outcome : std::uint8_t { holds, violated, incomplete } found = outcome::holds;
  std::string line; ///< what to tell the user
};

/// The same for a file; an incomplete one is called so and not judged, since what it lacks may only be unrecorded.
history_verdict check_history(const trace_file& file);

} // namespace penstock::actors
