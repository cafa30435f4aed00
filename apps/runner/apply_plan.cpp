// Plans from files, and how they fit model, machine and run.
#include "apps/runner/apply_plan.hpp"

#include "actors/policy/asking_the_planner.hpp"
#include "actors/profiler/measure_machine.hpp"
#include "apps/runner/options.hpp"
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "kernels/reorder_model.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"

#include <fmt/format.h>

namespace penstock::apps {

using actors::asking_the_planner;

planner::plan read_plan_file(const std::filesystem::path& file, const std::string& option) {
  std::string text;
  try {
    text = read_text_file(file.string());
  } catch (const error& fault) {
    throw error(option + ": " + fault.what());
  }
  return asking_the_planner([&] {
    const auto source = option + ": " + file.string();
    auto p = planner::plan_from_json(text, source);
    try {
      planner::check_plan(p);
    } catch (const std::invalid_argument& fault) {
      throw std::invalid_argument(source + ": " + fault.what());
    }
    return p;
  });
}

fitted_plan fit_plan(const planner::plan& p, std::shared_ptr<const model> net, int threads, const std::string& prefix) {
  if (p.simulation_only)
    throw usage_error(prefix + "the plan is for simulation only: schedule " + p.schedule +
                      " or its devices do not exist here");
  if (!p.model.empty() && p.model != net->name())
    throw usage_error(prefix + "the plan is for " + p.model + ", wanted one for " + net->name());
  if (!p.layer_order.empty()) net = std::make_shared<const model>(reordered(*net, p.layer_order));
  planner::execution_plan fitted = p;
  actors::first_layers_of(fitted, *net); // refuses what is not the model's
  if (threads > 0)
    fitted.threads = threads;
  else if (p.threads > usable_cores())
    throw usage_error(prefix +
                      fmt::format("the plan has {} threads a worker, this machine {} cores; --threads says how many "
                                  "to use",
                                  p.threads, usable_cores()));
  return {std::move(fitted), std::move(net)};
}

void leave_out_lost(planner::execution_plan& p, const losses& lost, int processes, const model& net) {
  const auto before = actors::settle_plan(p, net, {processes_before(lost, processes), 0});
  auto request = actors::as_request(p, net);
  auto where = actors::placement_of(*before);
  where.rank_of.resize(positions_of(*before)); // what else they host goes with it
  shrink_pipeline(without_losses(std::move(where), lost), request);
  const auto order = std::move(p.layer_order);
  p = actors::draft_plan(request, net);
  p.layer_order = order;
}

int optimizer_copies(const optimizer_options& options) {
  return static_cast<int>(make_optimizer(options)->state_names().size());
}

std::string plan_differences(const planner::plan& p, const std::string& model_description,
                             const actors::run_options& run, int threads) {
  std::vector<std::string> differences;
  if (p.batch > 0 && p.batch != run.batch)
    differences.push_back(fmt::format("batches of {} (here {})", p.batch, run.batch));
  if (!p.model_options.empty() && p.model_options != model_description)
    differences.push_back(fmt::format("{} (here {})", p.model_options, model_description));
  if (p.predicted && p.optimizer_copies != optimizer_copies(run.optimizer))
    differences.push_back(fmt::format("an optimizer that keeps {} copies of the weights (here {})", p.optimizer_copies,
                                      optimizer_copies(run.optimizer)));
  if (p.threads > 0 && threads > 0 && p.threads != threads)
    differences.push_back(fmt::format("{} threads a worker (here {})", p.threads, threads));
  return differences.empty() ? ""
                             : "the plan was made for " + join(differences, ", ") + ": its prediction does not hold";
}

std::vector<bool> parse_recompute(const std::string& text, std::size_t stages) {
  if (text == "none") return {};
  if (text == "all") return std::vector<bool>(stages, true);
  std::vector<bool> marked(stages, false);
  for (const int stage : parse_counts("--recompute", text, 0)) {
    if (static_cast<std::size_t>(stage) >= stages)
      throw usage_error(
          fmt::format("--recompute: found stage {}, wanted none, all or stages from 0 to {}", stage, stages - 1));
    marked[static_cast<std::size_t>(stage)] = true;
  }
  return marked;
}

} // namespace penstock::apps
