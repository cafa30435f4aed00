// Makes a run do what a plan says.
#pragma once

#include "actors/policy/settle_plan.hpp"
#include "actors/run_options.hpp"
#include "apps/runner/shrink.hpp"
#include "kernels/model.hpp"
#include "planner/plan/plan.hpp"

#include <filesystem>
#include <memory>

namespace penstock::apps {

/// Reads, parses and checks a plan's file. Throws usage_error for a plan that makes no sense, penstock::error for a
/// file that cannot be read; `option` begins the line.
planner::plan read_plan_file(const std::filesystem::path& file, const std::string& option = "--plan");

/// What of a plan is run here, and the model with its layers in the plan's order.
struct fitted_plan {
  planner::execution_plan plan;
  std::shared_ptr<const model> net;
};

/// `threads` above 0 are taken instead of the plan's. Throws usage_error where plan and model do not fit: another
/// model, layers that are not there, gaps, devices that only exist in simulation; the line begins with `prefix`.
fitted_plan fit_plan(const planner::plan& p, std::shared_ptr<const model> net, int threads,
                     const std::string& prefix = "--plan: ");

/// A file's plan was made for all the processes that there once were: what is left of it for these. Throws usage_error
/// as settle_plan.
void leave_out_lost(planner::execution_plan& p, const losses& lost, int processes, const model& net);

/// Copies of the weights that an optimizer keeps as its state.
int optimizer_copies(const optimizer_options& options);

/// What is different between what the plan was made for and this run, for the log: batch, geometry, optimizer, threads
/// (0: not given). "" for nothing.
std::string plan_differences(const planner::plan& p, const std::string& model_description,
                             const actors::run_options& run, int threads);

/// The stages marked in "none", "all" or "0,2". Throws usage_error that names --recompute.
std::vector<bool> parse_recompute(const std::string& text, std::size_t stages);

} // namespace penstock::apps
