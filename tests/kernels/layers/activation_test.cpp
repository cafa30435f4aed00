// GELU, tanh, the logistic function and softmax: float64 by the formulas, gradients, and the linear layer before them.
#include "kernels/check.hpp"
#include "kernels/layers/activation.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/layers/softmax.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <numbers>

namespace penstock::testing {
namespace {

struct activation_case {
  std::string name;
  layer_ptr op;
  std::function<double(double)> value;
};

std::vector<activation_case> activations() {
  return {
      {"gelu", layers::gelu(), [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }},
      {"gelu_tanh", layers::gelu(layers::gelu_form::tanh),
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }},
      {"tanh", layers::tanh(), [](double x) { return std::tanh(x); }},
      {"sigmoid", layers::sigmoid(), [](double x) { return 1 / (1 + std::exp(-x)); }}};
}

TEST(Activation, IsItsFormulaInFloat64FarFromZeroAndNear) {
  host_tensor x{{1, 4001}, {}};
  for (int i = -2000; i <= 2000; ++i)
    x.values.push_back(static_cast<float>(i) / 100);
  for (const auto& a : activations())
    for (const auto& backend : backends_under_test()) {
      const auto y = run_layer(*open_stream(backend), {.op = a.op, .inputs = {x}}).outputs[0];
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        const double wanted = a.value(x.values[i]);
        ASSERT_NEAR(y.values[i], wanted, 4e-7 * (1 + std::abs(wanted))) << a.name << " at " << x.values[i];
      }
    }
}

TEST(Activation, KeepsWhatEveryLayerPromisesInAnyLayout) {
  for (const auto& a : activations())
    for (const shape& dims : {shape{3, 7}, shape{2, 5, 33}, shape{2, 19, 3, 5}, shape{67, 4, 131}}) {
      SCOPED_TRACE(a.name + " " + to_string(dims));
      const auto call = random_call(a.op, std::vector<shape>{dims}, 5);
      expect_backends_agree(call);
      expect_same_bits_for_any_threads(call);
    }
}

TEST(Activation, GradientsAreSlopes) {
  for (const auto& a : activations()) {
    SCOPED_TRACE(a.name);
    expect_gradients_are_slopes(random_call(a.op, std::vector<shape>{{3, 7}}, 9));
  }
}

TEST(Activation, KeepsNaNAndEndsAtItsLimits) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const host_tensor x{{1, 4}, {nan, 1000, -1000, inf}};
  for (const auto& backend : backends_under_test())
    for (const auto& a : activations()) {
      const auto y = run_layer(*open_stream(backend), {.op = a.op, .inputs = {x}}).outputs[0].values;
      const bool bounded = a.name == "tanh" || a.name == "sigmoid";
      EXPECT_TRUE(std::isnan(y[0])) << a.name;
      EXPECT_EQ(y[1], bounded ? 1 : 1000) << a.name;
      EXPECT_NEAR(y[2], a.name == "tanh" ? -1 : 0, 1e-30) << a.name;
      EXPECT_EQ(y[3], bounded ? 1 : inf) << a.name;
    }
}

TEST(Activation, SaysWhatItIsAndNeedsOneInputOfFloats) {
  for (const auto& a : activations()) {
    EXPECT_EQ(a.op->kind(), a.name);
    EXPECT_TRUE(a.op->keeps_finite());
    EXPECT_THAT(
        [&] {
          a.op->infer(std::vector<tensor_spec>{{dtype::i64, {2}}});
        },
        ::testing::ThrowsMessage<usage_error>("input is I64, F32 is wanted"));
  }
}

// The bits of a linear layer that computes what follows within itself, and of both apart.
TEST(Activation, WithinALinearLayerChangesNoBit) {
  for (const auto& after :
       {layers::relu(), layers::gelu(), layers::gelu(layers::gelu_form::tanh), layers::tanh(), layers::sigmoid()})
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(std::string(after->kind()) + " " + backend.name);
      const auto on = open_stream(backend);
      const auto linear = layers::linear({.in_features = 37, .out_features = 19});
      auto apart = random_call(linear, std::vector<shape>{{3, 5, 37}}, 4);
      auto fused = apart;
      fused.op = linear->try_fuse(*after);
      ASSERT_NE(fused.op, nullptr);
      EXPECT_EQ(fused.op->kind(), "linear+" + std::string(after->kind()));
      EXPECT_EQ(fused.op->try_fuse(*after), nullptr);
      apart.output_gradients.clear();
      const auto between = run_layer(*on, apart).outputs[0];
      layer_call second{.op = after, .inputs = {between}};
      second.output_gradients = fused.output_gradients;
      const auto behind = run_layer(*on, second);
      apart.output_gradients = behind.input_gradients;
      const auto before = run_layer(*on, apart);
      for (const bool split : {false, true}) {
        fused.split_backward = split;
        const auto whole = run_layer(*on, fused);
        expect_same(whole.outputs, behind.outputs, "output");
        expect_same(whole.input_gradients, before.input_gradients, "input gradient");
        expect_same(whole.weight_gradients, before.weight_gradients, "weight gradient");
      }
      fused.mode = phase::evaluation;
      fused.output_gradients.clear();
      expect_same(run_layer(*on, fused).outputs, behind.outputs, "evaluation");
    }
}

// -- softmax ------------------------------------------------------------------------

TEST(Softmax, IsItsDefinitionInFloat64) {
  for (const shape& dims : {shape{3, 7}, shape{2, 5, 33}, shape{1, 1}, shape{2, 19, 3, 5}, shape{67, 4, 131}}) {
    auto call = random_call(layers::softmax(), std::vector<shape>{dims}, 8);
    const auto length = static_cast<std::size_t>(dims.back());
    host_tensor wanted{dims, {}};
    for (std::size_t row = 0; row < call.inputs[0].values.size(); row += length) {
      double sum = 0;
      for (std::size_t i = 0; i < length; ++i)
        sum += std::exp(static_cast<double>(call.inputs[0].values[row + i]));
      for (std::size_t i = 0; i < length; ++i)
        wanted.values.push_back(
            static_cast<float>(std::exp(static_cast<double>(call.inputs[0].values[row + i])) / sum));
    }
    for (const auto& backend : backends_under_test())
      expect_close(run_layer(*open_stream(backend), call).outputs[0], wanted, 1e-6, backend.name + to_string(dims));
    if (dims.back() > 1) expect_backends_agree(call); // else the gradient is 0, and rounding is compared
    expect_same_bits_for_any_threads(call);
  }
  expect_gradients_are_slopes(random_call(layers::softmax(), std::vector<shape>{{3, 7}}, 9));
}

TEST(Softmax, StandsLargeValuesAndShowsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& backend : backends_under_test()) {
    const auto y = run_layer(*open_stream(backend),
                             {.op = layers::softmax(), .inputs = {{{3, 2}, {1e30F, 1e30F, -1e30F, 0, nan, 1}}}})
                       .outputs[0]
                       .values;
    EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 4), (std::vector<float>{0.5F, 0.5F, 0, 1})) << backend.name;
    EXPECT_TRUE(std::isnan(y[4]) && std::isnan(y[5])) << backend.name;
  }
}

} // namespace
} // namespace penstock::testing
