// Additive attention beyond what PyTorch's fixtures say (tests/kernels/backend_suite/recurrent_test.cpp).
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/layers/additive_attention.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

layer_call call_of(std::int64_t queries, std::int64_t keys, std::int64_t hidden, std::vector<float> lengths,
                   unsigned seed) {
  const auto rows = static_cast<std::int64_t>(lengths.size());
  auto call = random_call(layers::additive_attention(hidden),
                          {random_tensor({rows, queries, hidden}, seed),
                           random_tensor({rows, keys, hidden}, seed + 1),
                           {{rows}, std::move(lengths), dtype::i64}},
                          seed + 2);
  for (float& value : call.weights[0].values)
    value *= 0.3F;
  for (float& value : call.weights[1].values)
    value *= 0.3F;
  return call;
}

TEST(AdditiveAttention, KeepsWhatEveryLayerPromises) {
  expect_backends_agree(call_of(3, 5, 7, {5, 1, 3}, 1));
  expect_backends_agree(call_of(7, 9, 35, {9, 4, 0, 8, 2}, 20)); // a row of no keys too
}

TEST(AdditiveAttention, GradientsAreSlopes) {
  expect_gradients_are_slopes(call_of(2, 3, 4, {3, 2}, 1));
}

TEST(AdditiveAttention, HasTheSameBitsForAnyNumberOfThreads) {
  const auto call = call_of(5, 7, 50, {7, 6, 5}, 5);
  const auto backends = backends_under_test();
  const auto one = run_layer(*open_stream(backends[1]), call), two = run_layer(*open_stream(backends[2]), call);
  expect_same(two.outputs, one.outputs, "output");
  expect_close(two.input_gradients, one.input_gradients, 1e-6, "input gradient"); // the projections are oneDNN's
  expect_close(two.weight_gradients, one.weight_gradients, 1e-6, "weight gradient");
}

TEST(AdditiveAttention, KeysThatWereProjectedBeforeGiveTheSame) {
  auto call = call_of(3, 5, 6, {5, 2}, 9);
  call.weights[1].values.assign(36, 0);
  for (std::size_t i = 0; i < 6; ++i)
    call.weights[1].values[7 * i] = 1; // W_k is the identity
  auto given = call;
  given.op = layers::additive_attention(6, {.keys = true});
  given.inputs.push_back(call.inputs[1]);
  given.weights.erase(given.weights.begin() + 1);
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto whole = run_layer(*on, call), parts = run_layer(*on, given);
    expect_close(parts.outputs, whole.outputs, 1e-6, "output");
    ASSERT_EQ(parts.input_gradients.size(), 4U);
    for (std::size_t i = 0; i < 60; ++i)
      EXPECT_NEAR(parts.input_gradients[1].values[i] + parts.input_gradients[3].values[i],
                  whole.input_gradients[1].values[i], 1e-5);
    ASSERT_EQ(parts.weight_gradients.size(), 4U);
  }
  expect_backends_agree(given);
  EXPECT_THAT(
      [&] {
        given.op->infer(std::vector<tensor_spec>{
            {dtype::f32, {2, 3, 6}}, {dtype::f32, {2, 5, 6}}, {dtype::i64, {2}}, {dtype::f32, {2, 4, 6}}});
      },
      ::testing::ThrowsMessage<usage_error>("projected keys are [2, 4, 6], [2, 5, 6] is wanted"));
}

TEST(AdditiveAttention, KeysBeyondTheLengthChangeNothingAndGetNoGradient) {
  auto call = call_of(3, 5, 6, {5, 2}, 9);
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto before = run_layer(*on, call);
    auto other = call;
    for (std::size_t i = (5 + 2) * 6; i < other.inputs[1].values.size(); ++i)
      other.inputs[1].values[i] = 50;
    const auto after = run_layer(*on, other);
    expect_same(after.outputs, before.outputs, "output");
    expect_same(after.input_gradients, before.input_gradients, "input gradient");
    for (std::size_t i = (5 + 2) * 6; i < before.input_gradients[1].values.size(); ++i)
      EXPECT_EQ(before.input_gradients[1].values[i], 0);
  }
}

TEST(AdditiveAttention, NeverHoldsATensorOfQueriesTimesKeysTimesFeatures) {
  constexpr std::int64_t rows = 4, queries = 40, keys = 40, hidden = 64;
  constexpr std::int64_t forbidden = rows * queries * keys * hidden * 4; // 1.6 MB
  const auto device = open_device({});
  const auto on = device->create_stream({.name = "cpu", .threads = 1});
  const auto call = call_of(queries, keys, hidden, {40, 40, 40, 40}, 3);
  on->run([&](backend& ops) {
    std::vector<tensor> inputs, weights, gradients{to_device(ops, call.output_gradients[0])};
    for (const auto& x : call.inputs)
      inputs.push_back(x.type == dtype::i64
                           ? labels_to_device(ops, std::vector<std::int64_t>(x.values.begin(), x.values.end()))
                           : to_device(ops, x));
    std::vector<tensor_spec> specs;
    for (const auto& x : inputs)
      specs.push_back({x.type(), x.dims()});
    for (std::size_t i = 0; i < call.weights.size(); ++i)
      weights.push_back(
          ops.reorder(to_device(ops, call.weights[i]), call.op->parameter_format(ops, i, specs), memory_use::weights));
    run_context context{.ops = ops};
    device->memory().reset_peak();
    const auto live = device->memory().usage().total_live_bytes;
    const auto made = call.op->forward(context, inputs, weights);
    call.op->backward(context, gradients, weights, made.saved);
    EXPECT_LT(device->memory().usage().total_peak_bytes - live, forbidden / 2);
  });
}

TEST(AdditiveAttention, SaysWhatItIs) {
  const std::vector<tensor_spec> inputs{{dtype::f32, {3, 5, 16}}, {dtype::f32, {3, 7, 16}}, {dtype::i64, {3}}};
  const auto op = layers::additive_attention(16, {.probabilities = true});
  const auto parameters = op->parameters(inputs);
  std::vector<std::string> names;
  for (const auto& p : parameters)
    names.push_back(p.name);
  EXPECT_THAT(names, ::testing::ElementsAre("linear_q.weight", "linear_k.weight", "linear_att", "normalize_scalar",
                                            "normalize_bias"));
  EXPECT_EQ(parameters[3].init.value, 0.25F); // 1 / sqrt 16
  EXPECT_EQ(parameters[4].init.value, 0);
  EXPECT_EQ(parameters[2].dims, shape{16});
  ASSERT_EQ(op->infer(inputs).size(), 2U);
  EXPECT_EQ(op->infer(inputs)[0].dims, (shape{3, 5, 16}));
  EXPECT_EQ(op->infer(inputs)[1].dims, (shape{3, 5, 7}));
  EXPECT_EQ(layers::additive_attention(16)->infer(inputs).size(), 1U);
}

TEST(AdditiveAttention, RefusesWhatDoesNotFit) {
  using ::testing::ThrowsMessage;
  const auto infer = [](shape query, shape keys, shape lengths) {
    layers::additive_attention(4)->infer(std::vector<tensor_spec>{
        {dtype::f32, std::move(query)}, {dtype::f32, std::move(keys)}, {dtype::i64, std::move(lengths)}});
  };
  EXPECT_THAT([] { layers::additive_attention(0); },
              ThrowsMessage<usage_error>("additive_attention: hidden is 0, at least 1 is wanted"));
  EXPECT_THAT(
      [&] {
        infer({2, 3, 4}, {2, 3, 5}, {2});
      },
      ThrowsMessage<usage_error>("inputs have 4 and 5 features, 4 are wanted"));
  EXPECT_THAT(
      [&] {
        infer({2, 3, 4}, {3, 3, 4}, {2});
      },
      ThrowsMessage<usage_error>("inputs have 2 and 3 rows, equally many are wanted"));
  EXPECT_THAT(
      [&] {
        infer({2, 4}, {2, 3, 4}, {2});
      },
      ThrowsMessage<usage_error>("input 0 has shape [2, 4], [N, T, F] is wanted"));
}

} // namespace
} // namespace penstock::testing
