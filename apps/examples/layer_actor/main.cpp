// Trains LeNet in two stages with a layer actor of our own on the cut: layer_actor [DATA [STEPS [AFTER_LAYER]]].
#include "actors/policy/settle_plan.hpp"
#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "apps/models/registry.hpp"
#include "bf16_cut.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace {

using namespace penstock;

/// Keeps the loss of the first and of the last step.
class loss_observer : public actors::run_observer {
public:
  void on_step(const actors::step_event& event) override {
    if (event.step == 1) first = event.loss;
    last = event.loss;
  }
  double first = 0;
  double last = 0;
};

std::int64_t parse_steps(const std::string& text) {
  std::int64_t steps = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (problem != std::errc{} || end != text.data() + text.size() || steps < 1)
    throw usage_error("STEPS is '" + text + "'; wanted a whole number of at least 1");
  return steps;
}

/// Index of the layer behind that one: where the second stage begins.
int layer_behind(const model& net, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& l : net.layers())
    names.push_back(l.name);
  names.pop_back(); // behind the last layer is no stage
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) throw usage_error("AFTER_LAYER is '" + name + "'; wanted one of " + join(names, ", "));
  return static_cast<int>(at - names.begin()) + 1;
}

void run(const std::string& data_spec, std::int64_t steps, const std::string& after_layer) {
  const auto net = std::make_shared<const model>(apps::find_model("lenet").build({}));
  const auto data = apps::open_data({.spec = data_spec});
  const auto cut = std::make_shared<layer_actor::bf16_cut>(after_layer);

  const auto plan =
      actors::settle_request({.replicas = {1, 1}, .threads = 1, .cuts = {layer_behind(*net, after_layer)}}, *net);
  actors::run_options options;
  options.steps = steps;
  options.eval_every = -1;
  const actors::run_inputs inputs{
      .net = net, .train = data.train.get(), .model_options = "lenet", .layer_actors = {cut}};

  loss_observer observer;
  actors::run_control control;
  const auto summary = actors::train(plan, options, inputs, observer, control);
  std::printf("steps %lld, loss %.4f -> %.4f, weights %s\n", static_cast<long long>(summary.steps), observer.first,
              observer.last, summary.weights_sha256.c_str());
  const auto& counts = cut->counts();
  std::printf("behind %s: %lld activations of %lld bytes, %lld saved by bf16; %lld gradients\n", after_layer.c_str(),
              static_cast<long long>(counts.messages), static_cast<long long>(counts.bytes),
              static_cast<long long>(counts.saved), static_cast<long long>(counts.gradients));
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() > 3) throw usage_error("usage: layer_actor [DATA [STEPS [AFTER_LAYER]]]");
    run(!arguments.empty() ? arguments[0] : "synthetic", arguments.size() > 1 ? parse_steps(arguments[1]) : 40,
        arguments.size() > 2 ? arguments[2] : "pool2");
  } catch (const usage_error& e) {
    std::fprintf(stderr, "layer_actor: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "layer_actor: %s\n", e.what());
    return 1;
  }
  return 0;
}
