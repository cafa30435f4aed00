// `--plan auto`: measures the model on this machine and looks for the plan to run.
#pragma once

#include "apps/runner/options.hpp"
#include "kernels/model.hpp"
#include "planner/plan/plan.hpp"

#include <functional>
#include <optional>

namespace penstock::apps {

class app_job; // apps/runner/app_job.hpp

/// Profiles with each number of workers that the machine has cores for (or that the cluster's file names), plans for
/// each with what the options fix, and returns the fastest, the one with fewer workers among equals within half a
/// percent. `say` gets a line about each; returning false gives up. Throws usage_error for what cannot be kept or does
/// not fit, penstock::error when a file cannot be read or `say` gave up.
/// In a job the workers are its processes, the links are measured between them, and all ranks call it: they profile at
/// the same time, as they will compute. Rank 0 gets the plan, the others nothing.
std::optional<planner::plan> choose_plan(const app_options& options, std::shared_ptr<const model> net,
                          const std::string& model_description, const app_job* job, const std::function<bool(const std::string&)>& say);

} // namespace penstock::apps
