// Stages that sleep: how much of a minibatch each stage idles, by the trace, against the closed form of its schedule.
// bench_bubble [milliseconds an action, default 20] [micro-batches, default 8] [stages, default 4]
#include "actors/policy/settle_plan.hpp"
#include "actors/trace/reader.hpp"
#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <thread>

using namespace penstock;

namespace {

/// Hands its input on, and takes as long for each part of its work.
class sleeping_layer final : public layer {
public:
  explicit sleeping_layer(std::chrono::milliseconds each) : each_(each) {}
  std::string_view kind() const override { return "sleep"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override { return {{"weight", {1}, {}}}; }
  forward_result forward(run_context&, std::span<tensor> in, std::span<const tensor>) const override {
    std::this_thread::sleep_for(each_);
    return {{in[0]}, {}};
  }
  backward_result backward(run_context& c, std::span<tensor> dy, std::span<const tensor> w,
                           std::span<const tensor> saved) const override {
    auto parts = backward_input(c, dy, w, saved);
    return {std::move(parts.input_gradients), backward_weight(c, w, parts.kept)};
  }
  backward_input_result backward_input(run_context&, std::span<tensor> dy, std::span<const tensor>,
                                       std::span<const tensor>) const override {
    std::this_thread::sleep_for(each_);
    return {{dy[0]}, {}};
  }
  std::vector<tensor> backward_weight(run_context& c, std::span<const tensor>, std::span<tensor>) const override {
    std::this_thread::sleep_for(each_);
    return {c.ops.allocate_zeroed(dtype::f32, {1}, memory_use::gradients)};
  }

private:
  std::chrono::milliseconds each_;
};

std::shared_ptr<const model> sleeping_model(int stages, std::chrono::milliseconds each) {
  model_builder b("sleeping", {1, 4, 4});
  auto x = b.input();
  for (int s = 0; s < stages; ++s)
    x = b.add("sleep" + std::to_string(s), std::make_shared<sleeping_layer>(each), {x});
  x = b.add("flatten", layers::flatten(), {x});
  return std::make_shared<const model>(
      b.build(b.add("fc", layers::linear({.in_features = 16, .out_features = 2}), {x})));
}

class quiet : public actors::run_observer {};

/// Share of the time from a stage's first action to its last in which it does nothing, mean over the stages: of each
/// minibatch, whose time is that of all stages, or of the whole run, where each stage's own counts.
double idle_share(const actors::trace_file& trace, int stages, bool of_whole_run) {
  struct extent {
    double begin = std::numeric_limits<double>::max(), end = 0, busy = 0;
    void add(const actors::trace_record& r) {
      begin = std::min(begin, static_cast<double>(r.begin_ns));
      end = std::max(end, static_cast<double>(r.end_ns));
      busy += static_cast<double>(r.end_ns - r.begin_ns);
    }
  };
  std::map<std::int64_t, extent> extents;
  for (const auto& r : trace.records)
    if (actors::is_training(r) && r.kind != actors::span_kind::update && r.minibatch > 0) // the first one warms up
      extents[of_whole_run ? r.stage : r.minibatch].add(r);
  double idle = 0;
  for (const auto& [which, e] : extents)
    idle += 1 - e.busy / (e.end - e.begin) / (of_whole_run ? 1 : stages);
  return idle / static_cast<double>(extents.size());
}

} // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise; };
  const std::chrono::milliseconds each{number(1, 20)};
  const int microbatches = number(2, 8), stages = number(3, 4);
  const auto data =
      apps::open_data({.spec = "synthetic", .image_size = 4, .channels = 1, .classes = 2, .synthetic_samples = 256});
  const auto file = std::filesystem::temp_directory_path() / "bench_bubble.pftrace";
  std::printf("%d stages, %d micro-batches, %lld ms a forward, an input's part and a weights' part\n", stages,
              microbatches, static_cast<long long>(each.count()));
  for (const std::string name : {"1f1b", "interleaved", "zb-h1", "zb-h2"}) {
    const int chunks = name == "interleaved" ? 2 : 1;
    const auto net = sleeping_model(stages * chunks, each);
    actors::pipeline_request request{.schedule = name, .microbatches = microbatches, .chunks = chunks, .threads = 1};
    request.replicas.assign(static_cast<std::size_t>(stages), 1);
    for (int s = 1; s < stages * chunks; ++s)
      request.cuts.push_back(s);
    actors::run_options options;
    options.batch = microbatches;
    options.steps = 5;
    options.eval_every = -1;
    options.trace = file;
    actors::run_inputs inputs;
    inputs.net = net;
    inputs.train = data.train.get();
    quiet observer;
    actors::run_control control;
    actors::train(actors::settle_request(request, *net), options, inputs, observer, control);
    // With F = I = W the bubble of 1f1b is (n - 1) 3 F, as that of interleaved with F of a chunk; of zb-h1 (n - 1) F;
    // zb-h2's is zero by each stage's own span.
    const double bubble = name == "zb-h2" ? 0 : (stages - 1) * (name == "zb-h1" ? 1.0 : 3.0);
    const auto measured = idle_share(actors::read_trace(file), stages, name == "zb-h2");
    std::printf("%-11s idle %.2f %% by the trace, %.2f %% by the closed form\n", name.c_str(), 100 * measured,
                100 * bubble / (3.0 * microbatches * chunks + bubble));
  }
  std::filesystem::remove(file);
}
