// What trains one stretch of the run, from a drain to the next: the actors, or the oracle that judges them.
#pragma once

#include "actors/policy/epoch_minibatches.hpp"
#include "actors/run/stretch.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/trainer.hpp"
#include "planner/schedule.hpp"

#include <map>
#include <optional>

namespace penstock::actors {

class trace_recorder;
class step_log;

/// What both executors work with; outlives them.
struct run_services {
  const planner::execution_plan& plan; ///< settled
  const run_options& options;
  pipeline& built;
  const run_inputs& inputs;
  run_observer& observer;
  run_control& control;
  step_log& steps;
  trace_recorder* trace = nullptr;
  std::int64_t plan_epoch = 0;
  std::int64_t evaluations = 0; ///< of the run when the executor is made: those to come have numbers of their own
};

/// What is copied of what the owners have; `as_stored`: weights and optimizer state are lent as they lie in memory, for
/// as long as nothing is trained; `carried`: only what minibatches hand on; `measures`: nothing; `nothing`: they look
/// for numbers that are not finite.
enum class copy_of : std::uint8_t { everything, as_stored, statistics, carried, first_gradients, measures, nothing };
/// Whether a part (statistics, carried) is among what is asked for.
inline bool is_copied(copy_of asked, copy_of part) {
  return asked == copy_of::everything || asked == copy_of::as_stored || asked == part;
}

/// Of one stage, what this rank has.
struct stage_copy {
  std::int64_t version = 0;                            ///< updates applied
  std::map<std::string, std::int64_t> optimizer_steps; ///< by parameter
  named_tensors weights;                               ///< plain, as all that follows, unless as_stored
  named_tensors optimizer_state;                       ///< as "NAME.momentum"
  std::map<int, named_tensors> states;                 ///< BatchNorm statistics by replica here
  named_tensors carried;                               ///< what minibatches hand on, as carried_columns::copy names it
  named_tensors first_gradients;

  /// Adds what another owner of the same stage has.
  void merge(stage_copy other);
};

/// What a stage's work took on this rank.
struct stage_measures {
  std::int64_t updates = 0;
  std::int64_t weight_bytes = 0; ///< one version as stored
  double forward_seconds = 0;    ///< medians, of the first replica here
  double backward_seconds = 0;
  double update_seconds = 0;
};

/// Owns all that the pipeline learns, from its construction on.
class executor {
public:
  virtual ~executor() = default;
  /// Trains and drains. Returns how many minibatches were trained: fewer than planned when the control asked to stop.
  virtual std::int64_t train(stretch_ptr run) = 0;
  /// The whole data set through the pipeline in evaluation mode; versions and BatchNorm state stay as they are.
  /// `states`: BatchNorm statistics to use, by stage. Nothing when the control asked to stop before it was complete.
  virtual std::optional<loss_metrics> evaluate(const dataset& data, std::int64_t batch,
                                               const std::vector<std::vector<tensor>>& states) = 0;
  /// At a drain: copies of what the stages on this rank have, by stage.
  virtual std::map<int, stage_copy> collect(copy_of what) = 0;
  /// At a drain: throws penstock::error for BatchNorm statistics and optimizer state that are not finite; `after` ends
  /// the line ("after 40 steps").
  virtual void require_finite(const std::string& after) = 0;
  /// At a drain: of the stages on this rank, by stage.
  virtual std::map<int, stage_measures> measure() = 0;
};

std::unique_ptr<executor> make_actors_executor(run_services& services);
std::unique_ptr<executor> make_oracle_executor(run_services& services);

} // namespace penstock::actors
