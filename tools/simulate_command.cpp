// `penstock simulate`: plays a plan on the machine it was made for, or on another.
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/text_table.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "planner/draw_timeline.hpp"
#include "planner/explore/predict.hpp"
#include "planner/profile/json_reader.hpp"
#include "tools/commands.hpp"
#include "tools/plan_text.hpp"
#include "tools/read_inputs.hpp"
#include "tools/schedule_size.hpp"
#include "tools/trace/simulated_trace.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace penstock::tools {

namespace {

struct simulate_texts {
  std::string plan, profile, trace;
  cluster_texts cluster;
  std::int64_t graph_samples = 1;
  std::int64_t minibatches = 0;
  std::vector<std::string> stragglers;
  int columns = 0;
  bool json = false;
};

void declare(apps::command_line& line, simulate_texts& texts, planner::machine_options& options) {
  line.positional("PLAN", texts.plan, "Of `penstock plan`, or made by hand");
  line.group("Costs, where they are not the plan's own");
  line.text("--profile", texts.profile, "FILE", "What the layers cost");
  declare_cluster_options(line, texts.cluster);
  line.whole("--graph-samples", texts.graph_samples, 1, most_graph_samples,
             "Samples of the minibatches a graph.txt was made with");
  line.group("Run");
  line.whole("--minibatches", texts.minibatches, 1, "Minibatches from start to drain [enough for a steady state]");
  line.real("--jitter", options.jitter, 0, 10, "Coefficient of variation of every action's time");
  line.whole("--seed", options.seed, 0, "Of the jitter");
  line.texts("--straggler", texts.stragglers, "DEVICE=FACTOR", "Slow one device down (repeatable)");
  line.group("Output");
  line.text("--trace", texts.trace, "FILE", "As of a real run, for `penstock trace`");
  line.whole("--columns", texts.columns, 10, 100'000, "Width of the picture [the terminal's, else 110]");
  line.flag("--json", texts.json, "The figures as JSON instead");
}

/// One line for each stage that needs more than its devices have.
std::string what_is_too_large(const planner::plan& p, const planner::cluster& c) {
  std::string text;
  const auto positions = positions_of(p);
  for (std::size_t s = 0; s < positions; ++s) {
    const auto device = c.device_named(p.stages[s].devices.front());
    const auto limit = c.devices[static_cast<std::size_t>(c.type_of(device))].memory_bytes;
    double needed = 0; // by all that the device hosts
    for (auto hosted = s; hosted < p.stages.size(); hosted += positions)
      needed += p.predicted->stages[hosted].memory.total;
    if (limit > 0 && needed > limit)
      text += std::string("does not fit: ") + (p.chunks > 1 ? "worker " : "stage ") + std::to_string(s) + " needs " +
              bytes_text(needed) + ", its devices have " + bytes_text(limit) + "\n";
  }
  return text;
}

/// The plan with its prediction, and so with a machine to play it on. `remark` gets what the figures do not say.
planner::plan priced_plan(const simulate_texts& texts, std::string& remark) {
  auto plan = read_plan(texts.plan);
  if (!texts.profile.empty()) {
    const auto profile = apps::of_option("--profile", [&] { return read_profile(texts.profile, texts.graph_samples); });
    const auto cluster = read_cluster_options(texts.cluster);
    plan = naming(texts.plan, [&] { return planner::predict(plan, profile, cluster); });
    remark = what_is_too_large(plan, cluster);
    return plan;
  }
  if (is_given(texts.cluster)) throw usage_error("--profile: not given, wanted it beside --cluster or --workers");
  if (!plan.predicted || !plan.predicted->costs)
    throw usage_error(texts.plan + ": holds no costs (it was made or changed by hand), wanted --profile and --cluster");
  return plan;
}

/// The schedule of so many minibatches; 0: enough for a steady state.
planner::schedule schedule_of(const planner::plan& p, std::int64_t minibatches) {
  auto s = planner::resolve_schedule(planner::request_of(p, 1));
  s.minibatches = minibatches == 0 ? planner::steady_minibatches(s) : minibatches;
  check_schedule_size(s, s.minibatches);
  return s;
}

planner::straggler parse_straggler(const std::string& text, const planner::plan& p) {
  const auto equals = text.find('=');
  planner::straggler slow;
  if (equals != std::string::npos) {
    const auto* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data() + equals + 1, end, slow.factor);
    if (fault != std::errc{} || rest != end || !std::isfinite(slow.factor) || slow.factor <= 0 || slow.factor > 1e6)
      slow.factor = 0;
  }
  if (equals == std::string::npos || slow.factor == 0)
    throw usage_error("--straggler: found " + in_quotes(text) + ", wanted DEVICE=FACTOR with a factor above 0");
  const auto name = text.substr(0, equals);
  std::string some;
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    for (std::size_t r = 0; r < p.stages[s].devices.size(); ++r) {
      slow.device = p.predicted->costs->stages[s].devices[r];
      if (p.stages[s].devices[r] == name) return slow;
      if (some.size() < 60) some += (some.empty() ? "" : ", ") + p.stages[s].devices[r];
    }
  throw usage_error("--straggler: found " + in_quotes(name) + ", wanted a device of the plan: " + some);
}

std::string stage_table(const planner::schedule& s, const planner::machine_run& run, const std::vector<double>& busy) {
  std::vector<std::vector<std::string>> rows{
      {"stage", "replicas", "K", "in flight", "versions", "busy", "all-reduce", "memory", "weights", "activations"}};
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    rows.push_back({std::to_string(i), std::to_string(s.stages[i].replicas), std::to_string(s.stages[i].credit),
                    std::to_string(run.peak_in_flight[i]), std::to_string(run.memory[i].versions),
                    apps::percent_text(busy[i], 1), seconds_text(run.all_reduce_seconds[i]),
                    bytes_text(run.memory[i].total), bytes_text(run.memory[i].weights),
                    bytes_text(run.memory[i].activations)});
  return apps::text_table(rows);
}

/// The beginning: the pipeline fills and goes on for as long again, enough to see the schedule. Of many replicas the
/// first of each stage.
std::string picture(const planner::schedule& s, const planner::machine_run& run, int columns) {
  constexpr int most_rows = 64;
  const auto rows = std::accumulate(s.stages.begin(), s.stages.end(), 0,
                                    [](int sum, const auto& stage) { return sum + stage.replicas; });
  const auto last = std::min(s.minibatches, 1 + (2 * s.source_credit() - 1) / s.microbatches) - 1;
  double end = 0;
  std::vector<planner::timeline_span> shown;
  for (const auto& span : planner::timeline_of(run)) {
    if (rows <= most_rows || span.replica == 0) shown.push_back(span);
    if (span.stage == 0 && span.kind == planner::action_kind::backward && span.minibatch <= last)
      end = std::max(end, span.end);
  }
  return end > 0 ? planner::draw_timeline(shown, 0, end, columns, rows_of(run)) : "";
}

std::string json_of(const planner::schedule& s, const planner::machine_run& run, const std::vector<double>& busy,
                    double bubble, double bytes) {
  auto stages = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& memory = run.memory[i];
    stages.push_back({{"replicas", s.stages[i].replicas},
                      {"in_flight", s.stages[i].credit},
                      {"peak_in_flight", run.peak_in_flight[i]},
                      {"versions", memory.versions},
                      {"busy", busy[i]},
                      {"all_reduce_seconds", run.all_reduce_seconds[i]},
                      {"memory_bytes",
                       {{"weights", memory.weights},
                        {"gradients", memory.gradients},
                        {"optimizer_state", memory.optimizer_state},
                        {"activations", memory.activations},
                        {"workspace", memory.workspace},
                        {"total", memory.total}}}});
  }
  return planner::readable_json({{"schedule", s.name},
                                 {"minibatches", s.minibatches},
                                 {"microbatches", s.microbatches},
                                 {"step_seconds", run.step_seconds},
                                 {"makespan_seconds", run.makespan},
                                 {"bubble", bubble},
                                 {"bubble_with_fill_and_drain", std::max(0.0, run.bubble())},
                                 {"bytes_per_minibatch", bytes},
                                 {"stages", stages}});
}

void write_trace(const std::string& file, const planner::plan& p, const planner::schedule& s,
                 const planner::machine_run& run) {
  actors::simulated_run_names names{.model = p.model, .stage_layers = {}};
  for (const auto& stage : p.stages)
    names.stage_layers.push_back(stage.first_layer + " .. " + stage.last_layer);
  actors::write_simulated_trace(file, s, run, names);
}

} // namespace

int simulate_command(std::span<const std::string> arguments) {
  simulate_texts texts;
  planner::machine_options options;
  apps::command_line line("penstock simulate", "Plays a plan under a virtual clock.");
  declare(line, texts, options);
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (texts.plan.empty()) throw usage_error("simulate: wanted a plan's file: penstock simulate PLAN");
  if (!texts.trace.empty()) apps::check_output_file("--trace", texts.trace);
  std::string remark;
  const auto plan = priced_plan(texts, remark);
  if (plan.schedule == "fbp-as")
    throw usage_error(texts.plan + ": fbp-as runs forward and backward at once, which no list of actions says; what is "
                                   "predicted of it stands in the plan");
  const auto& machine = *plan.predicted->costs;
  for (const auto& text : texts.stragglers)
    options.stragglers.push_back(parse_straggler(text, plan));
  const auto schedule = schedule_of(plan, texts.minibatches);
  options.keep_spans = !texts.json || !texts.trace.empty();
  const auto run = naming(texts.plan, [&] { return planner::run_machine(schedule, machine, options); });
  const auto busy = planner::steady_busy(run, schedule.minibatches);
  const auto bubble = planner::steady_bubble(busy, machine, plan.chunks);
  // What streams beside a computation is in its time, not on the simulator's links.
  const auto bytes = plan.simulation_only ? plan.predicted->bytes_per_minibatch
                                          : run.bytes_sent / static_cast<double>(schedule.minibatches);
  if (!texts.trace.empty()) write_trace(texts.trace, plan, schedule, run);
  if (texts.json) {
    apps::say(json_of(schedule, run, busy, bubble, bytes));
    return 0;
  }
  apps::say(describe_stages(plan) + "\n" + schedule.name + ", " + std::to_string(schedule.minibatches) +
            " minibatches: step " + seconds_text(run.step_seconds) + " (predicted " +
            seconds_text(plan.predicted->step_seconds) + "), bubble " + apps::percent_text(bubble, 1) + ", " +
            apps::percent_text(std::max(0.0, run.bubble()), 1) + " with filling and draining; " + bytes_text(bytes) +
            " a minibatch\n" + remark + "\n" +
            picture(schedule, run, texts.columns > 0 ? texts.columns : apps::picture_columns(schedule.stages.size())) +
            "\n" + stage_table(schedule, run, busy));
  return 0;
}

} // namespace penstock::tools
