// Plans that take over while a run trains: read, settled for the job, and refused before they can do harm.
#pragma once

#include "apps/runner/plan_room.hpp"
#include "apps/runner/prepare.hpp"

#include <optional>

namespace penstock::apps {

/// Settles one change after another for a run. Immutable once made: any thread may ask. The run's data must outlive it.
class change_settler {
public:
  /// In a job every rank makes one. `run` is prepared but for its changes.
  change_settler(const app_options& options, app_job* job, const prepared_run& run);

  /// `given` settled for the run's model, processes and options, when it is to take over from `now`: threads and
  /// micro-batches are those of `now` unless it says them. Throws usage_error, one line, for another model or other
  /// layers, ranks that there are not, another family of schedules, what the schedule checker or the run's options
  /// refuse, and for what does not fit into memory.
  planner::plan_ptr settle(planner::plan given, const planner::execution_plan& now) const;

  std::int64_t total_steps() const { return total_steps_; }

private:
  int threads_ = 0; ///< that the user gave
  actors::job_place where_;
  actors::run_options options_;
  actors::run_inputs inputs_;
  std::int64_t total_steps_ = 0;
  std::vector<rank_room> rooms_;
};

/// A change is possible between schedules of one family: in another weights mean something else.
std::string family_of(const std::string& schedule);

/// What `--replan` asks for, read on rank 0 for all ranks: fills run.inputs.changes. On resuming, the last change at or
/// before the checkpoint's step gives the plan that the run starts with. Throws usage_error, one line that names option
/// and file; penstock::error for a file that cannot be read.
void settle_changes(const app_options& options, app_job* job, const change_settler& settler, prepared_run& run);

} // namespace penstock::apps
