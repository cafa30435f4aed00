// Everything that can be settled and refused before anything is computed.
#pragma once

#include "actors/executor.hpp"
#include "actors/policy/placement.hpp"

namespace penstock::actors {

struct run_plan {
  run_options options;       ///< with every default resolved
  planner::schedule dealing; ///< resolved, without lists
  std::vector<int> cuts;     ///< first layer of each stage
  placement where;
  int rank = 0;
  drain_plan drains;
  std::string instruction_set;
  std::string library;
};

/// Throws usage_error, one line, for what cannot be run.
run_plan resolve_run(const run_options& options, const run_inputs& inputs);

/// What the planner is asked for, with the run's options.
planner::schedule_request request_of(const run_options& options, std::int64_t minibatches);

/// The schedule of a stretch, checked by the static checker.
segment_run_ptr plan_segment(const run_plan& plan, std::int64_t segment, std::int64_t first, std::int64_t minibatches);

} // namespace penstock::actors
