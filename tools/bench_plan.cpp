// How well plans predict runs: profiles each model on this machine, predicts, runs, and compares step times and memory;
// or measures every cut of a model in two and says how far from the best the planner's choice is; or what --plan auto
// takes against six fixed plans.
#include "actors/profiler/measure_machine.hpp"
#include "actors/profiler/profile_model.hpp"
#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "apps/models/registry.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/exit_codes.hpp"
#include "kernels/usable_cores.hpp"
#include "planner/explore/explore.hpp"
#include "tools/bench_plan_auto.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <string>

using namespace penstock;

namespace {

constexpr std::int64_t image_size = 64;
constexpr std::int64_t batch = 32;

struct subject {
  std::shared_ptr<const model> net;
  apps::data_pair data;
  planner::profile measured;
};

subject prepare(const std::string& name) {
  subject s;
  s.net = std::make_shared<const model>(apps::find_model(name).build({.image_size = image_size, .classes = 10}));
  s.data = apps::open_data(
      {.spec = "synthetic", .image_size = image_size, .channels = 3, .classes = 10, .synthetic_samples = 512});
  actors::profile_options o;
  o.samples = {4, 8, 16, 32};
  o.workers = {1, 2};
  s.measured = actors::profile_model(s.net, name, o);
  return s;
}

class quiet : public actors::run_observer {};

actors::run_summary run(const subject& s, const planner::plan& plan, std::int64_t steps) {
  actors::run_options o;
  const auto fitted = apps::fit_plan(plan, s.net, 0);
  const auto settled = actors::settle_plan(fitted.plan, *fitted.net);
  o.batch = batch;
  o.steps = steps;
  o.eval_every = -1;
  o.lr.base = 1e-3F;
  actors::run_inputs inputs;
  inputs.net = fitted.net;
  inputs.train = s.data.train.get();
  quiet observer;
  actors::run_control control;
  return actors::train(settled, o, inputs, observer, control);
}

planner::plan plan_for(const subject& s, int stages, const std::string& schedule, int microbatches,
                       std::vector<std::string> first_layers = {}) {
  planner::plan_request request;
  request.batch = batch;
  request.schedules = {schedule};
  request.microbatches = {microbatches};
  request.stages = stages;
  request.first_layers = std::move(first_layers);
  request.replicas.assign(static_cast<std::size_t>(stages), 1);
  auto plan = planner::make_plan(s.measured, actors::measure_machine(stages), request);
  plan.threads = std::max(1, usable_cores() / stages);
  return plan;
}

double step_seconds(const actors::run_summary& run) {
  return static_cast<double>(batch) / run.steady_samples_per_s;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

// Spearman's.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto x = ranks_of(a);
  const auto y = ranks_of(b);
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    squares += (x[i] - y[i]) * (x[i] - y[i]);
  const auto n = static_cast<double>(x.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

struct comparison {
  std::string text;
  std::vector<double> predicted, measured; // seconds of a step, one of each round
  std::vector<double> memory_ratios;       // predicted over measured, of every stage and round
};

void compare_once(const subject& s, const std::string& name, std::int64_t steps, std::vector<comparison>& all,
                  std::size_t at) {
  for (const int stages : {1, 2})
    for (const auto& [schedule, microbatches] : std::vector<std::pair<std::string, int>>{
             {"pipedream", 1}, {"1f1b", 2}, {"1f1b", 4}, {"gpipe", 2}, {"gpipe", 4}}) {
      const auto plan = plan_for(s, stages, schedule, microbatches);
      const auto result = run(s, plan, steps);
      if (at == all.size()) {
        char text[64];
        std::snprintf(text, sizeof text, "%-9s %d stage%s %-9s M %d", name.c_str(), stages, stages == 1 ? " " : "s",
                      schedule.c_str(), microbatches);
        all.push_back({.text = text});
      }
      auto& c = all[at++];
      c.predicted.push_back(plan.predicted->step_seconds);
      c.measured.push_back(step_seconds(result));
      for (std::size_t i = 0; i < result.stages.size(); ++i)
        c.memory_ratios.push_back(plan.predicted->stages[i].memory.total /
                                  static_cast<double>(result.stages[i].peak_memory_bytes));
      std::fprintf(stderr, "%s: %.1f / %.1f ms\n", c.text.c_str(), 1e3 * c.predicted.back(), 1e3 * c.measured.back());
    }
}

// Each round profiles anew just before it runs, for a shared machine's speed drifts; medians over the rounds count.
void predict_and_run(const std::vector<std::string>& models, std::int64_t steps, int rounds) {
  std::vector<comparison> all;
  for (int round = 0; round < rounds; ++round) {
    std::size_t at = 0;
    for (const auto& name : models) {
      compare_once(prepare(name), name, steps, all, at);
      at += 10;
    }
  }
  std::vector<double> predicted, measured, errors, memory_errors;
  for (const auto& c : all) {
    predicted.push_back(median(c.predicted));
    measured.push_back(median(c.measured));
    errors.push_back(std::abs(predicted.back() / measured.back() - 1));
    for (const double ratio : c.memory_ratios)
      memory_errors.push_back(std::abs(ratio - 1));
    std::printf("%s: step %7.1f ms predicted, %7.1f measured, %.3f; memory %.3f to %.3f\n", c.text.c_str(),
                1e3 * predicted.back(), 1e3 * measured.back(), predicted.back() / measured.back(),
                *std::min_element(c.memory_ratios.begin(), c.memory_ratios.end()),
                *std::max_element(c.memory_ratios.begin(), c.memory_ratios.end()));
  }
  std::printf("step time: median error %.1f %%, largest %.1f %%, rank correlation %.3f\n", 100 * median(errors),
              100 * *std::max_element(errors.begin(), errors.end()), rank_correlation(predicted, measured));
  std::printf("peak memory: median error %.1f %%, largest %.1f %%\n", 100 * median(memory_errors),
              100 * *std::max_element(memory_errors.begin(), memory_errors.end()));
}

// Every cut once; then the fastest few and the planner's choice again, by turns, for the least of many noisy numbers is
// not the number of the best.
void measure_cuts(const std::string& name, std::int64_t steps, int rounds) {
  const auto s = prepare(name);
  const auto chosen = plan_for(s, 2, "pipedream", 1).stages[1].first_layer;
  std::vector<std::pair<double, std::string>> found;
  for (std::size_t l = 1; l < s.measured.layers.size(); ++l) {
    if (s.measured.layers[l].fused_with_previous) continue;
    const auto& cut = s.measured.layers[l].name;
    const auto plan = plan_for(s, 2, "pipedream", 1, {cut});
    found.emplace_back(step_seconds(run(s, plan, steps)), cut);
    std::printf("%-24s %7.1f ms predicted, %7.1f measured\n", cut.c_str(), 1e3 * plan.predicted->step_seconds,
                1e3 * found.back().first);
    std::fflush(stdout);
  }
  std::sort(found.begin(), found.end());
  std::map<std::string, std::vector<double>> again;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < std::min<std::size_t>(5, found.size()); ++i)
      again[found[i].second];
    again[chosen];
    for (auto& [cut, seconds] : again)
      seconds.push_back(step_seconds(run(s, plan_for(s, 2, "pipedream", 1, {cut}), steps)));
  }
  double best = HUGE_VAL;
  for (const auto& [cut, seconds] : again) {
    std::printf("again %-18s %7.1f ms\n", cut.c_str(), 1e3 * median(seconds));
    best = std::min(best, median(seconds));
  }
  std::printf("%s: the planner cuts at %s, %.3f of the best of all %zu cuts\n", name.c_str(), chosen.c_str(),
              median(again[chosen]) / best, found.size());
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "auto") == 0)
    return apps::run_guarded("bench_plan auto",
                             [&] { return tools::bench_plan_auto(std::vector<std::string>(argv + 2, argv + argc)); });
  const bool cuts = argc > 1 && std::strcmp(argv[1], "cuts") == 0;
  if (argc < 2 || (!cuts && std::strcmp(argv[1], "predict") != 0)) {
    std::fputs(
        "usage: bench_plan predict [STEPS [ROUNDS [MODEL...]]] | cuts [STEPS [ROUNDS [MODEL...]]] | auto [--help]\n",
        stderr);
    return 2;
  }
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 12;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 3;
  if (steps < 4 || rounds < 1) {
    std::fputs("bench_plan: wanted at least 4 steps and 1 round\n", stderr);
    return 2;
  }
  std::vector<std::string> models(argv + std::min(argc, 4), argv + argc);
  if (models.empty())
    models =
        cuts ? std::vector<std::string>{"vgg16", "resnet18"} : std::vector<std::string>{"vgg16", "resnet50", "alexnet"};
  if (!cuts) predict_and_run(models, steps, rounds);
  for (const auto& name : models)
    if (cuts) measure_cuts(name, steps, rounds);
  return 0;
}
