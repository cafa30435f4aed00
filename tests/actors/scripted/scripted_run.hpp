// Whole pipelines of cores in one thread, with real computations: every rank's parts, their mailboxes, streams and the
// network between ranks, in an order that a script chooses.
#pragma once

#include "actors/run/executor.hpp"
#include "actors/run/resolved_run.hpp"
#include "tests/actors/scripted/script.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace penstock::testing {

/// What is run. A stretch is planned for as long as the run's drain points say; wishes end it earlier.
struct scripted_case {
  actors::resolved_run plan;
  actors::run_inputs inputs;
  std::vector<int> drain_wishes; ///< events after which somebody wishes for a drain
  int lost_after = -1;           ///< events after which the last rank is lost; -1: never
  /// What the cores are told instead of the plan's schedule, to see that a wrong one is caught.
  std::function<void(planner::schedule&)> mutate{};
  /// Likewise: an update goes onto its stream ahead of what was posted last.
  bool updates_jump_the_queue = false;
};

struct scripted_outcome {
  std::string fault;                   ///< what went wrong; empty: nothing
  std::vector<std::int64_t> stretches; ///< minibatches of each
  std::vector<double> losses;          ///< sum of each evaluation
  std::string weights;                 ///< hash of all weights and states, of a run that ended well
  std::size_t events = 0;
  std::vector<std::string> log; ///< what happened, where asked for
};

scripted_outcome run_scripted(const scripted_case& what, script& choices, bool keeps_log = false);

/// The same stretches by the oracle.
scripted_outcome run_oracle(const scripted_case& what, const std::vector<std::int64_t>& stretches);

/// The pipeline with everything in this process.
std::unique_ptr<actors::pipeline> build_in_one_process(const scripted_case& what);

/// Of all weights, optimizer and BatchNorm state.
std::string hash_of_all(const actors::pipeline& parts, std::map<int, actors::stage_copy> copies);

} // namespace penstock::testing
