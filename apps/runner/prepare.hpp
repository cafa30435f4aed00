// From options to what a run needs: the model and the data that fit each other.
#pragma once

#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "apps/plugins/plugin_registry.hpp"
#include "apps/runner/options.hpp"
#include "planner/plan/plan.hpp"

#include <functional>
#include <memory>

namespace penstock::apps {

class app_job;        // apps/runner/app_job.hpp
class change_settler; // apps/runner/plan_changes.hpp

struct prepared_run {
  actors::run_options options;
  data_pair data;
  actors::run_inputs inputs; ///< points into data
  std::int64_t steps_per_epoch = 0;
  std::vector<std::string> notes;                  ///< for the log
  std::shared_ptr<const planner::plan> plan{};     ///< settled; with its prediction, where one was made for this
  std::shared_ptr<const change_settler> settler{}; ///< where the plan may change
};

/// Builds the model (with the plug-ins' layers), opens the data, and reads or finds the plan; `say` gets lines while it
/// measures, empty ones where there is nothing to tell, and returns false to give up. Opens nothing for writing. Throws
/// usage_error and penstock::error, one line each. In a job every rank calls it: the plan is rank 0's, and model, data
/// and threads must agree.
prepared_run prepare(const app_options& options, const plugin_registry& plugins, app_job* job,
                     const std::function<bool(const std::string&)>& say);

} // namespace penstock::apps
