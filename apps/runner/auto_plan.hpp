// `--plan auto`: measures the model on this machine, looks for plans, tries the best, and keeps what it took.
#pragma once

#include "apps/runner/options.hpp"
#include "kernels/model.hpp"
#include "planner/plan/plan.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace penstock::apps {

class app_job; // apps/runner/app_job.hpp

/// The plan of an earlier start of the same thing (plan_cache.hpp), or else: profiles with each number of workers that
/// the machine has cores for (or that the cluster's file names), plans for each with what the options fix, runs the
/// best few and what would run without a plan by turns for some steps, takes the fastest of them as measured, of equals
/// the simplest, and keeps it. Schedule and micro-batches are as given or default unless `auto:any` was asked for.
/// `say` gets lines; returning false gives up. Throws usage_error for what cannot be kept or does not fit,
/// penstock::error when a file cannot be read or `say` gave up. In a job the workers are its processes, the links are
/// measured between them, and all ranks call it: they profile and try at the same time, as they will compute. Rank 0's
/// cache decides for all. Rank 0 gets the plan, the others nothing.
std::optional<planner::plan> choose_plan(const app_options& options, const std::shared_ptr<const model>& net,
                                         const std::string& model_description, const app_job* job,
                                         const std::function<bool(const std::string&)>& say);

} // namespace penstock::apps
