// Two stages on two cores against one stage on one thread, in one run: measures layer times, takes the cut that they
// make best, trains both ways by turns, and reads the slower stage's busy share from the trace.
#include "actors/policy/settle_plan.hpp"
#include "actors/profiler/measure_machine.hpp"
#include "actors/profiler/profile_model.hpp"
#include "actors/trace/reader.hpp"
#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "apps/models/registry.hpp"
#include "kernels/usable_cores.hpp"
#include "tools/trace/summary.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace penstock;

namespace {

struct bench {
  std::shared_ptr<const model> net;
  apps::data_pair data;
  std::int64_t batch = 32;
  std::int64_t steps = 12;
};

planner::plan_ptr plan_of(const bench& b, int stages, std::vector<int> cuts) {
  actors::pipeline_request request{.threads = 1, .cuts = std::move(cuts)};
  request.replicas.assign(static_cast<std::size_t>(stages), 1);
  return actors::settle_request(request, *b.net);
}

actors::run_options options_of(const bench& b, std::int64_t steps) {
  actors::run_options o;
  o.batch = b.batch;
  o.steps = steps;
  o.eval_every = -1;
  o.optimizer.momentum = 0.9F;
  o.lr.base = 1e-3F;
  return o;
}

// Median seconds of each layer, forward and backward and update, on one of two busy workers.
std::vector<double> layer_seconds(const bench& b) {
  actors::profile_options o;
  o.samples = {b.batch};
  o.workers = {usable_cores()}; // one thread each
  const auto p = actors::profile_model(b.net, "", o);
  const auto& m = p.measurements.front();
  std::vector<double> seconds;
  for (std::size_t l = 0; l < m.layers.size(); ++l)
    seconds.push_back(m.layers[l].forward_seconds + m.layers[l].backward_seconds + m.update_seconds[l]);
  return seconds;
}

int best_cut(const std::vector<double>& seconds) {
  double sum = 0;
  for (const auto s : seconds)
    sum += s;
  double left = 0;
  double least = sum;
  int cut = 1;
  for (std::size_t l = 0; l + 1 < seconds.size(); ++l) {
    left += seconds[l];
    if (std::max(left, sum - left) < least) {
      least = std::max(left, sum - left);
      cut = static_cast<int>(l) + 1;
    }
  }
  return cut;
}

class quiet : public actors::run_observer {};

actors::run_summary run(const bench& b, const planner::plan_ptr& plan, const actors::run_options& o) {
  actors::run_inputs inputs;
  inputs.net = b.net;
  inputs.train = b.data.train.get();
  quiet observer;
  actors::run_control control;
  return actors::train(plan, o, inputs, observer, control);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

} // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "vgg16";
  bench b;
  b.steps = argc > 2 ? std::atoll(argv[2]) : 16;
  const std::int64_t size = 64;
  b.net = std::make_shared<const model>(apps::find_model(name).build({.image_size = size, .classes = 10}));
  b.data = apps::open_data(
      {.spec = "synthetic", .image_size = size, .channels = 3, .classes = 10, .synthetic_samples = 256});
  const auto seconds = layer_seconds(b);
  const int cut = best_cut(seconds);
  double left = 0;
  double sum = 0;
  for (std::size_t l = 0; l < seconds.size(); ++l)
    (static_cast<int>(l) < cut ? left : sum) += seconds[l];
  std::printf("%s at %lld px, batch %lld: layer times say cut before %s (%.3f s | %.3f s)\n", name.c_str(),
              static_cast<long long>(size), static_cast<long long>(b.batch),
              b.net->layers()[static_cast<std::size_t>(cut)].name.c_str(), left, sum);
  const auto file = std::filesystem::temp_directory_path() / "bench_pipeline.pftrace";
  std::vector<double> ratios;
  std::vector<double> busy;
  std::vector<double> efficiency;
  for (int round = 0; round < 3; ++round) {
    const auto one = run(b, plan_of(b, 1, {}), options_of(b, std::max<std::int64_t>(6, b.steps / 2)));
    auto o = options_of(b, b.steps);
    o.trace = file;
    const auto two = run(b, plan_of(b, 2, {cut}), o);
    const auto traced = actors::summarize(actors::read_trace(file));
    double slowest = 0;
    double total = 0;
    double slowest_busy = 0;
    for (const auto& s : traced.stages) {
      const double t = s.forward_time.median + s.backward_time.median + s.update_time.median;
      total += t;
      if (t > slowest) slowest_busy = s.busy();
      slowest = std::max(slowest, t);
    }
    ratios.push_back(two.steady_samples_per_s / one.steady_samples_per_s);
    busy.push_back(slowest_busy);
    efficiency.push_back(ratios.back() / (total / slowest));
    std::printf("round %d: one stage %.2f samples/s, two stages %.2f; ratio %.3f of %.3f possible (%.3f); slower stage "
                "busy %.2f %%\n",
                round + 1, one.steady_samples_per_s, two.steady_samples_per_s, ratios.back(), total / slowest,
                efficiency.back(), 100 * slowest_busy);
  }
  std::filesystem::remove(file);
  std::printf("median: %.3f times one stage, %.3f of sum over slowest, slower stage busy %.2f %%\n", median(ratios),
              median(efficiency), 100 * median(busy));
}
