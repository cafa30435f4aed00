// Plans each model alone and beside a busy process, then runs the plan taken and six fixed ones by turns.
#include "tools/bench_plan_auto.hpp"

#include "actors/policy/partition.hpp"
#include "actors/profiler/time_steps.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/auto_plan.hpp"
#include "apps/runner/network.hpp"
#include "apps/runner/options.hpp"
#include "apps/runner/plan_words.hpp"
#include "kernels/check.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace penstock::tools {

namespace {

struct settings {
  std::vector<std::string> models{"lenet", "resnet18", "vgg16", "resnet50"};
  std::vector<int> sizes{32, 64};
  std::vector<std::string> loads{"alone", "beside"};
  std::int64_t batch = 32;
  int repeats = 5;
  std::int64_t steps = 3;
  double seconds = 0.5;
};

// One process that never waits, ended with this object or with this process.
class busy_process {
public:
  busy_process() : id_(::fork()) {
    if (id_ < 0) throw error("cannot start a busy process");
    if (id_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile bool goes_on = true;
    while (goes_on) {
    }
  }
  ~busy_process() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  busy_process(const busy_process&) = delete;
  busy_process& operator=(const busy_process&) = delete;

private:
  pid_t id_;
};

planner::plan fixed_plan(const model& net, std::vector<int> cuts, std::vector<int> replicas, int threads,
                         std::int64_t first_credit = 0) {
  planner::plan p;
  p.threads = threads;
  const auto& layers = net.layers();
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    const auto end = s + 1 < cuts.size() ? static_cast<std::size_t>(cuts[s + 1]) : layers.size();
    p.stages.push_back({.first_layer = layers[static_cast<std::size_t>(cuts[s])].name,
                        .last_layer = layers[end - 1].name,
                        .replicas = replicas[s]});
  }
  if (first_credit > 0) p.stages.front().in_flight = first_credit;
  return planner::settled(p);
}

// Under the same schedule, the default one.
std::vector<planner::plan> six_plans(const model& net) {
  const int cores = usable_cores();
  const int halves = std::max(1, cores / 2);
  const auto balanced = actors::balanced_cuts(net, {1, 1});
  const int middle = static_cast<int>(net.layers().size()) / 2;
  return {fixed_plan(net, {0}, {1}, cores),
          fixed_plan(net, {0}, {1}, halves),
          fixed_plan(net, {0}, {2}, halves),
          fixed_plan(net, balanced, {1, 1}, halves),
          fixed_plan(net, balanced, {1, 1}, halves, 3),
          fixed_plan(net, {0, middle}, {1, 1}, halves)};
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct outcome {
  std::string what;
  double ratio = 0;
};

class comparison {
public:
  comparison(const settings& s, const std::string& model, int size) : settings_(s), model_(model) {
    std::vector<std::string> words{"--plan", "auto", "--plan-cache", "off", "--batch", std::to_string(s.batch)};
    if (size > 0) words.insert(words.end(), {"--image-size", std::to_string(size)});
    std::string help;
    options_ = *apps::parse_options(model, words, help);
    built_ = apps::build_network(options_, {});
  }

  outcome run(const std::string& load) {
    const auto begin = std::chrono::steady_clock::now();
    const auto taken =
        *apps::choose_plan(options_, built_.net, built_.description, nullptr, [](const std::string& line) {
          if (!line.empty()) std::fprintf(stderr, "  %s\n", line.c_str());
          return true;
        });
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto plans = six_plans(*built_.net);
    plans.push_back(taken);
    std::vector<std::vector<double>> times(plans.size());
    for (int r = 0; r < settings_.repeats; ++r)
      for (std::size_t i = 0; i < plans.size(); ++i)
        times[i].push_back(time(plans[i]));
    std::printf("%s, %s (planned in %.0f s)\n", built_.description.c_str(), load.c_str(), seconds);
    double best = HUGE_VAL;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const bool is_fixed = i + 1 < plans.size();
      const auto middle = median(times[i]);
      if (is_fixed) best = std::min(best, middle);
      std::printf("  %s %9.2f ms  %s\n", is_fixed ? "fixed" : "taken", 1e3 * middle, apps::plan_line(plans[i]).c_str());
    }
    const outcome result{built_.description.substr(0, built_.description.find(" channels")) + ", " + load,
                         best / median(times.back())};
    std::printf("  taken / best of six: %.3f\n", result.ratio);
    std::fflush(stdout);
    return result;
  }

private:
  double time(const planner::plan& p) {
    const auto fitted = apps::fit_plan(p, built_.net, 0);
    const auto plan = actors::settle_plan(fitted.plan, *fitted.net);
    return actors::time_steps(plan, options_.run, fitted.net, nullptr,
                              {.seconds = settings_.seconds, .least_steps = settings_.steps, .number = number_++});
  }

  const settings& settings_;
  std::string model_;
  apps::app_options options_;
  apps::built_network built_;
  std::int64_t number_ = 0;
};

void report(const std::vector<outcome>& all) {
  std::printf("\ntaken / best of six, speed\n");
  std::vector<double> ratios;
  for (const auto& o : all) {
    std::printf("  %-40s %.3f\n", o.what.c_str(), o.ratio);
    ratios.push_back(o.ratio);
  }
  std::printf("median %.3f (wanted 0.97), least %.3f (wanted 0.9), of %zu\n", median(ratios),
              *std::min_element(ratios.begin(), ratios.end()), ratios.size());
}

} // namespace

int bench_plan_auto(std::span<const std::string> arguments) {
  settings s;
  std::string models, sizes, loads;
  apps::command_line line("bench_plan auto",
                          "The plan that --plan auto takes against six fixed ones, alone and beside a busy process. On "
                          "two quiet cores everything takes about an hour and a half; parts of it may be named.");
  line.text("--models", models, "NAME,...", "[lenet,resnet18,vgg16,resnet50]");
  line.text("--sizes", sizes, "N,...", "Pixels a side; LeNet has its own [32,64]");
  line.text("--loads", loads, "WORD,...", "alone, beside [alone,beside]");
  line.whole("--batch", s.batch, 1, "Samples of a minibatch");
  line.whole("--repeats", s.repeats, 1, "Turns of each plan");
  line.whole("--steps", s.steps, 1, "Steps of a turn at least");
  line.real("--seconds", s.seconds, 0, 3600, "Of a turn at least");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (!models.empty()) s.models = apps::parse_words("--models", models);
  if (!sizes.empty()) s.sizes = apps::parse_counts("--sizes", sizes, 1);
  if (!loads.empty()) s.loads = apps::parse_words("--loads", loads);
  for (const auto& load : s.loads)
    if (load != "alone" && load != "beside") throw usage_error("--loads: found '" + load + "', wanted alone or beside");
  std::vector<outcome> all;
  for (const auto& load : s.loads) {
    std::optional<busy_process> busy;
    if (load == "beside") busy.emplace();
    for (const auto& model : s.models)
      for (const int size : model == "lenet" ? std::vector<int>{0} : s.sizes)
        all.push_back(comparison(s, model, size).run(load));
  }
  report(all);
  return 0;
}

} // namespace penstock::tools
