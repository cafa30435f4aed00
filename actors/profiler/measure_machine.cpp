// Times messages and memory between the workers of one process.
#include "actors/profiler/measure_machine.hpp"

#include "actors/labelled_images.hpp"
#include "actors/policy/settle_plan.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/trainer.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

namespace penstock::actors {

namespace {

using clock = std::chrono::steady_clock;

class one_image : public labelled_images {
public:
  std::int64_t size() const override { return 4096; }
  tensor_spec input() const override { return {dtype::f32, {16}}; }
  std::int64_t classes() const override { return 16; }
  std::int64_t load(const sample_key& key, bool, float* input) const override {
    std::fill_n(input, 16, 1.0F);
    return key.index % 16;
  }
  std::string description() const override { return "ones"; }
};

// Passes its tensors on.
class nothing : public layer {
public:
  std::string_view kind() const override { return "nothing"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  forward_result forward(run_context&, std::span<tensor> in, std::span<const tensor>) const override {
    return {{in[0]}, {}};
  }
  backward_result backward(run_context&, std::span<tensor> dy, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {{dy[0]}, {}};
  }
};

class step_times : public run_observer {
public:
  step_times(run_control& control, const std::function<bool()>& should_stop)
      : control_(control), should_stop_(should_stop) {}
  void on_step(const step_event&) override {
    at.push_back(clock::now());
    if (should_stop_ && should_stop_()) control_.stop = true;
  }
  std::vector<clock::time_point> at;
  // Of the later three quarters.
  double median_seconds() const {
    std::vector<double> seconds;
    for (std::size_t i = at.size() / 4; i + 1 < at.size(); ++i)
      seconds.push_back(std::chrono::duration<double>(at[i + 1] - at[i]).count());
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }

private:
  run_control& control_;
  const std::function<bool()>& should_stop_;
};

} // namespace

double available_memory_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;)
    if (double kib = 0; word == "MemAvailable:" && in >> kib) return kib * 1024;
  throw error("[machine] /proc/meminfo does not say how much memory is available");
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const auto at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown";
}

double idle_step_seconds(int stages, std::int64_t steps, const std::function<bool()>& should_stop) {
  if (stages < 1 || steps < 16)
    throw usage_error("idle steps: found " + std::to_string(stages) + " stages and " + std::to_string(steps) +
                      " steps, wanted at least 1 and 16");
  model_builder b("hops", {16});
  auto x = b.add("scale", layers::linear({.in_features = 16, .out_features = 16}), {b.input()});
  for (int i = 1; i < stages; ++i)
    x = b.add("nothing" + std::to_string(i), std::make_shared<nothing>(), {x});
  const one_image data;
  pipeline_request request{.schedule = "model-parallel", .threads = 1};
  request.replicas.assign(static_cast<std::size_t>(stages), 1);
  run_options o;
  o.batch = 1;
  o.steps = steps;
  o.eval_every = -1;
  run_inputs inputs;
  inputs.net = std::make_shared<const model>(b.build(x));
  inputs.train = &data;
  run_control control;
  step_times times(control, should_stop);
  train(settle_request(request, *inputs.net), o, inputs, times, control);
  if (control.stop) throw error("the machine was not measured: asked to stop");
  return times.median_seconds();
}

double measure_hop_seconds(std::int64_t steps, const std::function<bool()>& should_stop) {
  // Eight more stages are eight more hops forward and eight back, each with its piece of work on the stage's stream.
  return std::max(0.0, idle_step_seconds(12, steps, should_stop) - idle_step_seconds(4, steps, should_stop)) / 16;
}

double measure_read_bytes_per_s(int workers, std::size_t bytes) {
  pipeline_request request{.threads = std::max(1, usable_cores() / workers)};
  request.replicas.assign(static_cast<std::size_t>(std::max(2, workers)), 1);
  model_builder b("two", {1});
  auto x = b.input();
  for (std::size_t i = 0; i < request.replicas.size(); ++i)
    x = b.add("fc" + std::to_string(i), layers::linear({.in_features = 1, .out_features = 1}), {x});
  const auto net = std::make_shared<const model>(b.build(x));
  const auto parts = build_pipeline(*settle_request(request, *net), {}, net);
  std::vector<unsigned char> written(bytes);
  std::vector<unsigned char> copy(bytes);
  std::vector<double> rates;
  for (int i = 0; i < 9; ++i) {
    parts->stages[0].update_stream().run([&](backend&) { std::memset(written.data(), i, bytes); });
    parts->stages[1].update_stream().run([&](backend&) {
      const auto begin = clock::now();
      std::memcpy(copy.data(), written.data(), bytes);
      rates.push_back(static_cast<double>(bytes) / std::chrono::duration<double>(clock::now() - begin).count());
    });
  }
  std::nth_element(rates.begin(), rates.begin() + 4, rates.end());
  return rates[4];
}

planner::cluster measure_machine(int workers, const std::function<bool()>& should_stop) {
  if (workers < 1) throw usage_error("workers: found " + std::to_string(workers) + ", wanted at least 1");
  planner::cluster c;
  c.name = "this machine, " + std::to_string(workers) + (workers == 1 ? " worker" : " workers");
  planner::device_type cpu;
  cpu.name = "cpu";
  cpu.count = workers;
  cpu.threads = std::max(1, usable_cores() / workers);
  cpu.memory_bytes = available_memory_bytes() / workers;
  c.devices.push_back(std::move(cpu));
  planner::link_level link;
  link.group = workers;
  link.bandwidth_bytes_per_s = measure_read_bytes_per_s(workers);
  link.latency_s = measure_hop_seconds(2000, should_stop);
  link.by_reference = true;
  c.levels.push_back(link);
  planner::check_cluster(c);
  return c;
}

} // namespace penstock::actors
