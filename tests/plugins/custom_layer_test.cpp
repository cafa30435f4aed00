// The example's layers, loaded as a plug-in: values and gradients in plain and blocked layouts.
#include "kernels/stream.hpp"
#include "tests/plugins/example_plugin.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::apps {
namespace {

using function = std::function<double(double)>;

struct activation_case {
  std::string layer;
  std::string options;
  function value;
};

tensor ramp(backend& ops, const shape& dims, double from, double step) {
  auto x = ops.allocate(dtype::f32, dims, memory_use::scratch);
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.data<float>()[i] = static_cast<float>(from + step * static_cast<double>(i));
  return ops.reorder(x, dims.size() == 4 ? ops.activation_format(dims) : nullptr, memory_use::activations);
}

void expect_activation(backend& ops, const activation_case& c, const shape& dims) {
  const auto op = example_plugin().make_layer(c.layer, c.options);
  run_context context{.ops = ops, .need_input_gradient = {true}};
  const tensor x = ramp(ops, dims, -4.05, 0.1);
  std::vector<tensor> inputs{x};
  auto result = op->forward(context, inputs, {});
  std::vector<tensor> dy{ramp(ops, dims, 1.0, 0.0)};
  const auto gradients = op->backward(context, dy, {}, result.saved);
  const auto y = ops.to_plain(result.outputs.at(0));
  const auto dx = ops.to_plain(gradients.input_gradients.at(0));
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const double at = -4.05 + 0.1 * static_cast<double>(i);
    const double slope = (c.value(at + 1e-5) - c.value(at - 1e-5)) / 2e-5;
    ASSERT_NEAR(y.data<float>()[i], c.value(at), 1e-5) << c.layer << " of " << at;
    ASSERT_NEAR(dx.data<float>()[i], slope, 1e-5) << c.layer << " at " << at;
  }
}

TEST(CustomLayer, HasTheValuesAndGradientsOfItsFunction) {
  const std::vector<activation_case> cases{{"swish", "", [](double x) { return x / (1 + std::exp(-x)); }},
                                           {"swish", "beta=2", [](double x) { return x / (1 + std::exp(-2 * x)); }},
                                           {"leaky_relu", "slope=0.2", [](double x) { return x > 0 ? x : 0.2 * x; }}};
  for (const bool reference : {true, false}) {
    const auto work = open_device({})->create_stream({.reference = reference});
    work->run([&](backend& ops) {
      for (const auto& c : cases) {
        expect_activation(ops, c, {9, 9});
        expect_activation(ops, c, {2, 3, 4, 4}); // three channels: padded where layouts are blocked
      }
    });
  }
}

TEST(CustomLayer, SavesNothingWhenEvaluating) {
  const auto work = open_device({})->create_stream({});
  work->run([&](backend& ops) {
    run_context context{.ops = ops, .mode = phase::evaluation};
    std::vector<tensor> inputs{ramp(ops, {2, 3}, 0, 1)};
    EXPECT_TRUE(example_plugin().make_layer("swish", "")->forward(context, inputs, {}).saved.empty());
  });
}

} // namespace
} // namespace penstock::apps
