// Everything that can be settled and refused before anything is computed.
#pragma once

#include "actors/executor.hpp"
#include "planner/plan/execution_plan.hpp"

namespace penstock::actors {

/// A settled plan and what is resolved around it for one run.
struct run_plan {
  planner::plan_ptr plan;
  planner::schedule dealing; ///< the plan's, of no particular length
  run_options options;       ///< with every default resolved
  int rank = 0;
  drain_plan drains;
  std::string instruction_set;
  std::string compute_library;
};

/// Settles what `plan` leaves open. Throws usage_error, one line, for what cannot be run.
run_plan resolve_run(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs);

/// The same run under another plan, from a drain on. Throws usage_error likewise.
run_plan resolve_change(const run_plan& now, const planner::plan_ptr& to, const run_inputs& inputs);

/// The schedule of a stretch, checked by the static checker.
stretch_ptr plan_stretch(const run_plan& plan, std::int64_t number, std::int64_t first, std::int64_t minibatches);

} // namespace penstock::actors
