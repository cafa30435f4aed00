// Runs a pipeline for a little while on made-up samples, only to see how fast it is.
#pragma once

#include "actors/ranks/job.hpp"
#include "actors/run_options.hpp"
#include "kernels/model.hpp"
#include "planner/plan/execution_plan.hpp"

#include <functional>
#include <memory>

namespace penstock::actors {

struct timing_options {
  double seconds = 0.5;                ///< of steady state, unless the least steps take longer
  std::int64_t least_steps = 3;        ///< in steady state
  double most_seconds = 20;            ///< from the first step on; then it is over with the steps there are
  std::vector<std::int64_t> extents{}; ///< of the samples, by model::extents(); empty: nominal
  std::int64_t number = 0;             ///< of this run among those of the process; every rank of a job gives the same
  std::function<bool()> should_stop{}; ///< asked after every layer, on any thread; true to give up
};

/// Seconds of one step in steady state: from the first minibatch that found the pipeline full, its kernels made
/// and its memory touched to the last one, over their number. Builds the pipeline of `plan` with weights
/// of 0, trains it with the real executor without touching any file, and drops it. In a job every rank calls it with
/// the same arguments, and rank 0's result counts. Throws as train(), and penstock::error when `should_stop` said so.
double time_steps(const planner::plan_ptr& plan, run_options options, const std::shared_ptr<const model>& net,
                  const job* ranks, const timing_options& how);

} // namespace penstock::actors
