// How long a message takes from one stage actor to the next: a pipeline of layers that compute nothing, one minibatch
// in flight, so that the time of a step is 2 (n - 1) hops and the ends. Prints the median hop.
#include "actors/trainer.hpp"
#include "kernels/layers/layers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace penstock;

namespace {

class one_image : public actors::dataset {
public:
  std::int64_t size() const override { return 4096; }
  tensor_spec input() const override { return {dtype::f32, {16}}; }
  std::int64_t classes() const override { return 16; }
  std::int64_t load(const actors::sample_key& key, bool, float* input) const override {
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

class step_times : public actors::run_observer {
public:
  void on_step(const actors::step_event&) override { at.push_back(std::chrono::steady_clock::now()); }
  std::vector<std::chrono::steady_clock::time_point> at;
  double median_us() const {
    std::vector<double> us;
    for (std::size_t i = at.size() / 4; i + 1 < at.size(); ++i)
      us.push_back(std::chrono::duration<double, std::micro>(at[i + 1] - at[i]).count());
    std::nth_element(us.begin(), us.begin() + static_cast<std::ptrdiff_t>(us.size() / 2), us.end());
    return us[us.size() / 2];
  }
};

// Median time of a step with `stages` stages of which all but the first compute nothing.
double step_us(int stages, std::int64_t steps) {
  model_builder b("hops", {16});
  auto x = b.add("scale", layers::linear({.in_features = 16, .out_features = 16}), {b.input()});
  for (int i = 1; i < stages; ++i)
    x = b.add("nothing" + std::to_string(i), std::make_shared<nothing>(), {x});
  const one_image data;
  actors::run_options o;
  o.schedule = "model-parallel";
  o.replicas.assign(static_cast<std::size_t>(stages), 1);
  for (int i = 1; i < stages; ++i)
    o.cuts.push_back(i);
  o.batch = 1;
  o.steps = steps;
  o.threads = 1;
  o.eval_every = -1;
  actors::run_inputs inputs;
  inputs.net = std::make_shared<const model>(b.build(x));
  inputs.train = &data;
  step_times times;
  actors::run_control control;
  actors::train(o, inputs, times, control);
  return times.median_us();
}

} // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
  std::vector<double> hops;
  for (int round = 0; round < 5; ++round) {
    const double few = step_us(4, steps);
    const double many = step_us(12, steps);
    // Eight more stages are eight more hops forward and eight back, each with its piece of work on the stage's stream.
    hops.push_back((many - few) / 16);
    std::printf("round %d: step with 4 stages %.1f us, with 12 stages %.1f us: %.1f us a hop\n", round + 1, few, many,
                hops.back());
  }
  std::sort(hops.begin(), hops.end());
  std::printf("median hop (mailbox, decision, stream and back): %.1f us\n", hops[hops.size() / 2]);
}
