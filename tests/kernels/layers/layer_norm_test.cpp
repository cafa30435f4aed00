// Layer normalisation: float64 by the definition, gradients, and what is refused.
#include "kernels/check.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

struct norm_case {
  shape x, normalized;
  bool bias = true;
  float epsilon = 1e-5F;
};

std::vector<norm_case> cases() {
  return {{{3, 7}, {7}},
          {{2, 5, 33}, {33}},
          {{2, 3, 5, 7}, {5, 7}},         // images: in blocks of channels where there are more than four
          {{2, 19, 3, 5}, {3, 5}, false}, //
          {{2, 17, 2, 3}, {17, 2, 3}},
          {{5, 1}, {1}}, // one value is its own mean
          {{4, 129}, {129}, true, 0.125F},
          {{67, 4, 131}, {131}}}; // enough for several threads
}

layer_call call_of(const norm_case& c, unsigned seed) {
  return random_call(layers::layer_norm({.normalized = c.normalized, .epsilon = c.epsilon, .bias = c.bias}), {c.x},
                     seed);
}

// torch.nn.LayerNorm's formula, and its derivative, in float64.
layer_outcome by_the_definition(const norm_case& c, const layer_call& call) {
  const auto length = static_cast<std::size_t>(element_count(c.normalized));
  const auto& x = call.inputs[0].values;
  const auto& w = call.weights[0].values;
  const auto& dy = call.output_gradients[0].values;
  layer_outcome wanted;
  wanted.outputs = wanted.input_gradients = {{c.x, std::vector<float>(x.size())}};
  std::vector<double> dw(length), db(length);
  for (std::size_t row = 0; row < x.size(); row += length) {
    double mean = 0, variance = 0, sum = 0, projection = 0;
    for (std::size_t i = 0; i < length; ++i)
      mean += x[row + i] / static_cast<double>(length);
    for (std::size_t i = 0; i < length; ++i)
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(length);
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(c.epsilon));
    for (std::size_t i = 0; i < length; ++i) {
      const double hat = (x[row + i] - mean) * inverse, g = static_cast<double>(dy[row + i]) * w[i];
      wanted.outputs[0].values[row + i] = static_cast<float>(hat * w[i] + (c.bias ? call.weights[1].values[i] : 0.0F));
      dw[i] += dy[row + i] * hat;
      db[i] += dy[row + i];
      sum += g / static_cast<double>(length);
      projection += g * hat / static_cast<double>(length);
    }
    for (std::size_t i = 0; i < length; ++i)
      wanted.input_gradients[0].values[row + i] = static_cast<float>(
          inverse * (static_cast<double>(dy[row + i]) * w[i] - sum - (x[row + i] - mean) * inverse * projection));
  }
  wanted.weight_gradients.push_back({c.normalized, {dw.begin(), dw.end()}});
  if (c.bias) wanted.weight_gradients.push_back({c.normalized, {db.begin(), db.end()}});
  return wanted;
}

TEST(LayerNorm, IsItsDefinitionInFloat64OnEveryBackend) {
  unsigned seed = 1;
  for (const auto& c : cases()) {
    const auto call = call_of(c, seed += 10);
    const auto wanted = by_the_definition(c, call);
    for (const auto& backend : backends_under_test()) {
      SCOPED_TRACE(backend.name + ", " + to_string(c.x));
      const auto found = run_layer(*open_stream(backend), call);
      expect_close(found.outputs, wanted.outputs, 1e-5, "output");
      if (element_count(c.normalized) > 1) // else nothing is left of x, and rounding of nothing is compared
        expect_close(found.input_gradients, wanted.input_gradients, 1e-5, "input gradient");
      expect_close(found.weight_gradients, wanted.weight_gradients, 1e-5, "weight gradient");
    }
  }
}

TEST(LayerNorm, KeepsWhatEveryLayerPromises) {
  unsigned seed = 500;
  for (const auto& c : cases()) {
    SCOPED_TRACE(to_string(c.x));
    if (element_count(c.normalized) > 1) expect_backends_agree(call_of(c, seed += 10)); // as above
  }
}

TEST(LayerNorm, GradientsAreSlopes) {
  for (const auto& c : {cases()[0], norm_case{{2, 3, 5}, {3, 5}}, norm_case{{2, 2, 2, 3}, {2, 3}, false}}) {
    SCOPED_TRACE(to_string(c.x));
    expect_gradients_are_slopes(call_of(c, 900));
  }
}

TEST(LayerNorm, HasTheSameBitsForAnyNumberOfThreads) {
  expect_same_bits_for_any_threads(call_of(cases().back(), 77));
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  auto call = call_of({{2, 64}, {64}}, 31);
  for (float& v : call.inputs[0].values)
    v = std::round(v * 16) / 16;
  auto far = call;
  for (float& v : far.inputs[0].values)
    v += 4096; // exact
  for (const auto& backend : backends_under_test()) {
    const auto on = open_stream(backend);
    expect_close(run_layer(*on, far).outputs, run_layer(*on, call).outputs, 1e-4, backend.name);
  }
}

TEST(LayerNorm, KeepsNothingInEvaluation) {
  auto call = call_of(cases()[0], 3);
  const auto trained = run_layer(*reference_stream(), call);
  call.mode = phase::evaluation;
  call.output_gradients.clear();
  const auto evaluated = run_layer(*reference_stream(), call);
  expect_same(evaluated.outputs, trained.outputs, "output");
  EXPECT_EQ(evaluated.saved, 0U);
  EXPECT_EQ(trained.saved, 3U);
}

TEST(LayerNorm, StartsAsOnesAndZerosAndSaysWhatItIs) {
  const auto op = layers::layer_norm({.normalized = {4, 5}});
  const std::vector<tensor_spec> inputs{{dtype::f32, {2, 3, 4, 5}}};
  const auto parameters = op->parameters(inputs);
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].dims, (shape{4, 5}));
  EXPECT_EQ(parameters[0].init.value, 1);
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].init.value, 0);
  EXPECT_TRUE(parameters[0].norm_or_bias && parameters[1].norm_or_bias);
  EXPECT_EQ(layers::layer_norm({.normalized = {5}, .bias = false})->parameters(inputs).size(), 1U);
  EXPECT_EQ(op->infer(inputs)[0].dims, inputs[0].dims);
  EXPECT_EQ(op->forward_flops(inputs), 8.0 * 120);
  EXPECT_EQ(op->kind(), "layer_norm");
  EXPECT_TRUE(op->keeps_finite());
}

TEST(LayerNorm, RefusesWhatItCannotNormalise) {
  using ::testing::ThrowsMessage;
  const auto infer = [](shape normalized, tensor_spec input) {
    layers::layer_norm({.normalized = std::move(normalized)})->infer(std::vector<tensor_spec>{std::move(input)});
  };
  EXPECT_THAT([&] { infer({}, {}); },
              ThrowsMessage<usage_error>("layer_norm: normalized is [], at least one axis is wanted"));
  EXPECT_THAT(
      [&] {
        infer({3, 0}, {});
      },
      ThrowsMessage<usage_error>("layer_norm: normalized is 0, at least 1 is wanted"));
  EXPECT_THAT([] { layers::layer_norm({.normalized = {2}, .epsilon = 0}); },
              ThrowsMessage<usage_error>("layer_norm: epsilon is 0, more than 0 is wanted"));
  EXPECT_THAT([&] { infer({5}, {dtype::i64, {2, 5}}); }, ThrowsMessage<usage_error>("input is I64, F32 is wanted"));
  EXPECT_THAT(
      [&] {
        infer({5}, {dtype::f32, {2, 6}});
      },
      ThrowsMessage<usage_error>("input has shape [2, 6], [N, ...] that ends in [5] is wanted"));
  EXPECT_THAT(
      [&] {
        infer({2, 5}, {dtype::f32, {2, 5}});
      },
      ThrowsMessage<usage_error>("input has shape [2, 5], [N, ...] that ends in [2, 5] is wanted"));
}

} // namespace
} // namespace penstock::testing
