// Everything that can be settled and refused before anything is computed.
#pragma once

#include "actors/run/executor.hpp"
#include "planner/plan/execution_plan.hpp"

namespace penstock::actors {

/// A settled plan and what is resolved around it for one run.
struct resolved_run {
  planner::plan_ptr plan;
  planner::schedule dealing; ///< the plan's, of no particular length
  run_options options;       ///< with every default resolved
  int rank = 0;
  drain_plan drains;
  minibatches_ptr data;           ///< of the training data
  std::int64_t average_from = -1; ///< stretch::average_from
  std::int64_t columns = 0;       ///< batch columns where its minibatches continue each other
  std::string instruction_set;
  std::string compute_library;
};

/// Settles what `plan` leaves open. Throws usage_error, one line, for what cannot be run.
resolved_run resolve_run(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs);

/// The same run under another plan, from a drain on. Throws usage_error likewise.
resolved_run resolve_change(const resolved_run& now, const planner::plan_ptr& to, const run_inputs& inputs);

/// The schedule of a stretch, checked by the static checker.
/// `carried`: stretch::carried.
stretch_ptr plan_stretch(const resolved_run& plan, std::int64_t number, std::int64_t first, std::int64_t minibatches,
                         std::shared_ptr<const named_tensors> carried = {});

} // namespace penstock::actors
