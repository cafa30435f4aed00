// Where minibatches continue each other: that model and data agree on it, and each batch column keeps to one replica of
// a stage (DESIGN section 3).
#pragma once

#include "actors/ranks/stage_snapshot.hpp"
#include "actors/run/resolved_run.hpp"

namespace penstock::actors {

/// The least common multiple of a settled plan's replica counts: what batching::column_blocks is for a run that begins
/// with it. Throws usage_error where it is beyond all reason.
int column_blocks_of(const planner::execution_plan& plan);

/// The same of a run: what the checkpoint has that it resumes. Ranks that have a job do this together.
int column_blocks_of(const planner::execution_plan& plan, const run_options& options, const job* ranks);

/// Settles the run's columns and the blocks that minibatches take in turn: what was given, what a resumed checkpoint
/// has, else the least common multiple of the plan's replica counts. Throws usage_error, one line, for a model that
/// hands on a state and data whose minibatches are independent of each other, or the other way round, and as below.
void settle_columns(resolved_run& plan, const run_inputs& inputs);

/// Throws usage_error for a plan under which a column would go to several replicas of a stage: in the pipedream family
/// every replica count divides the blocks, elsewhere the micro-batches.
void require_fitting_replicas(const resolved_run& plan, const model& net);

/// Throws penstock::error where a run that goes on after so many minibatches, within an epoch, has nothing to carry on.
void require_carried(const resolved_run& plan, const pipeline& built, std::int64_t done);

/// Whether columns come to other replicas where dealing begins anew so many minibatches after it began.
bool moves_columns(const resolved_run& plan, std::int64_t minibatches);
/// At a drain: what the stages on this rank are carried, of all columns, by name. Ranks that have a job do this
/// together.
std::shared_ptr<const named_tensors> gather_carried(executor& run, const pipeline& built, bundle_transfers* transfers);

} // namespace penstock::actors
