// From a plan's words to a run's numbers.
#include "apps/runner/apply_plan.hpp"

#include "apps/runner/options.hpp"
#include "kernels/check.hpp"
#include "kernels/reorder_model.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace penstock::apps {

namespace {

// The planner knows no error types of ours: what it refuses is the user's to mend.
template <class Ask>
auto asking_the_planner(Ask ask) {
  try {
    return ask();
  } catch (const std::invalid_argument& refusal) {
    throw usage_error(refusal.what());
  }
}

std::vector<std::string> layer_names(const model& m) {
  std::vector<std::string> names;
  for (const auto& l : m.layers())
    names.push_back(l.name);
  return names;
}

} // namespace

planner::plan read_plan_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    throw error("--plan: cannot read " + file.string() + ": " + std::strerror(errno != 0 ? errno : EIO));
  return asking_the_planner([&] {
    auto p = planner::plan_from_json(text.str(), file.string());
    planner::check_plan(p);
    return p;
  });
}

void apply_plan(const planner::plan& p, std::shared_ptr<const model>& net, actors::run_options& run) {
  if (p.simulation_only)
    throw usage_error("--plan: the plan is for simulation only: schedule " + p.schedule +
                      " or its devices do not exist here");
  if (!p.model.empty() && p.model != net->name())
    throw usage_error("--plan: the plan is for " + p.model + ", wanted one for " + net->name());
  if (!p.layer_order.empty()) net = std::make_shared<const model>(reordered(*net, p.layer_order));
  run.cuts = asking_the_planner([&] { return planner::cuts_of(p, layer_names(*net)); });
  const auto request = planner::request_of(p, 1);
  run.schedule = request.name;
  run.replicas = request.replicas;
  run.microbatches = request.microbatches;
  run.in_flight = request.in_flight;
  run.window = request.window;
  run.recompute.clear();
  for (const auto& stage : p.stages)
    run.recompute.push_back(stage.recompute);
  if (p.threads > 0 && run.threads == 0) run.threads = p.threads;
}

std::string plan_differences(const planner::plan& p, const std::string& model_description, std::int64_t batch) {
  std::string text;
  if (p.batch > 0 && p.batch != batch) text = fmt::format("batches of {} (here {})", p.batch, batch);
  if (!p.model_options.empty() && p.model_options != model_description)
    text += fmt::format("{}{} (here {})", text.empty() ? "" : " and ", p.model_options, model_description);
  return text.empty() ? text : "the plan was made for " + text + ": its prediction does not hold";
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
