// What trains one stretch of the run, from a drain to the next: the actors, or the oracle that judges them.
#pragma once

#include "actors/pipeline.hpp"
#include "actors/policy/minibatch_plan.hpp"
#include "actors/trainer.hpp"
#include "planner/schedule.hpp"

#include <optional>

namespace penstock::actors {

class trace_recorder;
class step_log;

/// From one drain to the next. Immutable, shared.
struct segment_run {
  planner::schedule plan;
  std::int64_t segment = 0;         ///< drains before it
  std::int64_t first_minibatch = 0; ///< global id of tau 0
};
using segment_run_ptr = std::shared_ptr<const segment_run>;

/// What both executors work with; outlives them.
struct run_services {
  const planner::execution_plan& plan; ///< settled
  const run_options& options;
  pipeline& parts;
  const run_inputs& inputs;
  run_observer& observer;
  run_control& control;
  step_log& steps;
  trace_recorder* trace = nullptr;
};

class executor {
public:
  virtual ~executor() = default;
  /// Trains and drains. Returns how many minibatches were trained: fewer than planned when the control asked to stop.
  virtual std::int64_t train(segment_run_ptr run) = 0;
  /// The whole data set through the pipeline in evaluation mode; versions and BatchNorm state stay as they are.
  /// `states`: BatchNorm statistics to use, by stage. Nothing when the control asked to stop before it was complete.
  virtual std::optional<loss_metrics> evaluate(const dataset& data, std::int64_t batch,
                                               const std::vector<std::vector<tensor>>& states) = 0;
};

std::unique_ptr<executor> make_actors_executor(run_services& services);
std::unique_ptr<executor> make_oracle_executor(run_services& services);

} // namespace penstock::actors
