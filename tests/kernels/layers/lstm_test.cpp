// The LSTM beyond what PyTorch's fixtures say (tests/kernels/backend_suite/recurrent_test.cpp): the promises of layers,
// lengths, weight drop, memory, and what is refused.
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/layers/lstm.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

host_tensor lengths_of(std::vector<float> lengths) {
  const auto rows = static_cast<std::int64_t>(lengths.size());
  return {{rows}, std::move(lengths), dtype::i64};
}

// Weights small enough that a sum of many does not saturate the gates.
layer_call calmed(layer_call call, float scale = 0.3F) {
  for (auto& w : call.weights)
    for (float& value : w.values)
      value *= scale;
  return call;
}

layer_call plain_call(shape x, std::int64_t hidden, unsigned seed, layers::lstm_options options = {}) {
  return calmed(random_call(layers::lstm(hidden, std::move(options)), {random_tensor(std::move(x), seed)}, seed + 1));
}

TEST(Lstm, KeepsWhatEveryLayerPromises) {
  expect_backends_agree(plain_call({3, 5, 4}, 7, 1));
  expect_backends_agree(plain_call({7, 6, 37}, 45, 20)); // enough for several threads, whole vectors and a rest
  expect_backends_agree(calmed(random_call(layers::lstm(9, {.biases = 1, .gates = gate_order::ifog, .lengths = true}),
                                           {random_tensor({4, 7, 3}, 40), lengths_of({7, 0, 3, 5})}, 41)));
  expect_backends_agree(calmed(random_call(layers::lstm(21, {.reverse = true, .lengths = true}),
                                           {random_tensor({4, 7, 3}, 60), lengths_of({1, 7, 0, 4})}, 61)));
  expect_backends_agree(plain_call({3, 5, 6}, 11, 80, {.weight_drop = 0.5F}));
}

TEST(Lstm, GradientsAreSlopes) {
  expect_gradients_are_slopes(plain_call({2, 3, 3}, 4, 1));
  expect_gradients_are_slopes(calmed(random_call(layers::lstm(3, {.biases = 1, .reverse = true, .lengths = true}),
                                                 {random_tensor({3, 4, 2}, 7), lengths_of({4, 2, 1})}, 8)));
  expect_gradients_are_slopes(plain_call({2, 3, 3}, 4, 30, {.weight_drop = 0.25F}));
}

TEST(Lstm, HasTheSameBitsForAnyNumberOfThreads) {
  const auto call = plain_call({7, 9, 70}, 83, 5);
  const auto backends = backends_under_test();
  const auto one = run_layer(*open_stream(backends[1]), call), two = run_layer(*open_stream(backends[2]), call);
  expect_same(two.outputs, one.outputs, "output");
  expect_same(two.input_gradients, one.input_gradients, "input gradient");
  expect_same(two.weight_gradients, one.weight_gradients, "weight gradient");
}

TEST(Lstm, ManyMoreTermsThanABlockOfAProductHasAgree) {
  expect_backends_agree(plain_call({2, 3, 1100}, 9, 15));
}

TEST(Lstm, PaddingChangesNothingWithinTheLengthsAndIsZero) {
  for (const bool reverse : {false, true}) {
    const auto op = layers::lstm(5, {.reverse = reverse, .lengths = true});
    auto call = calmed(random_call(op, {random_tensor({3, 6, 4}, 9), lengths_of({6, 2, 0})}, 10));
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(backend.name);
      const auto on = open_stream(backend);
      const auto before = run_layer(*on, call);
      auto other = call;
      for (std::size_t i = (6 + 2) * 4; i < other.inputs[0].values.size(); ++i)
        other.inputs[0].values[i] = 100; // beyond the lengths of the second row and the third
      for (std::size_t i = (6 + 2) * 5; i < other.output_gradients[0].values.size(); ++i)
        other.output_gradients[0].values[i] = -7;
      const auto after = run_layer(*on, other);
      expect_same(after.outputs, before.outputs, "output");
      expect_same(after.input_gradients, before.input_gradients, "input gradient");
      expect_same(after.weight_gradients, before.weight_gradients, "weight gradient");
      for (std::size_t i = (6 + 2) * 5; i < before.outputs[0].values.size(); ++i)
        EXPECT_EQ(before.outputs[0].values[i], 0);
    }
  }
}

TEST(Lstm, TellsOfALengthThatIsNoneOfARow) {
  auto call = calmed(
      random_call(layers::lstm(5, {.lengths = true}), {random_tensor({3, 6, 4}, 9), lengths_of({6, 7, -1})}, 10));
  call.name = "encoder.rnn_layers.1";
  for (const auto& backend : layer_backends_under_test()) {
    const auto on = open_stream(backend);
    EXPECT_EQ(run_layer(*on, call).refusal, "[layer] encoder.rnn_layers.1: length 7 at row 1; wanted 0 to 6");
    auto fits = call;
    fits.inputs[1] = lengths_of({6, 6, 0});
    const auto found = run_layer(*on, fits);
    EXPECT_EQ(found.refusal, "");
    expect_same(run_layer(*on, call).outputs, found.outputs, "output of lengths taken as the nearest there are");
  }
}

TEST(Lstm, GoesOnFromTheStateThatItLeft) {
  const layers::lstm_options options{.state = true};
  const auto whole =
      calmed(random_call(layers::lstm(6, options),
                         {random_tensor({2, 5, 3}, 3), random_tensor({2, 6}, 4, 0), random_tensor({2, 6}, 5, 0)}, 6));
  const auto part = [&](std::size_t first, std::int64_t count, host_tensor h, host_tensor c) {
    auto call = whole;
    host_tensor x{{2, count, 3}, {}};
    for (const std::size_t row : {0, 1})
      for (std::size_t i = first * 3; i < (first + static_cast<std::size_t>(count)) * 3; ++i)
        x.values.push_back(whole.inputs[0].values[row * 15 + i]);
    call.inputs = {x, std::move(h), std::move(c)};
    call.output_gradients.clear();
    return call;
  };
  for (const auto& backend : backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto all = run_layer(*on, whole);
    const auto first = run_layer(*on, part(0, 2, whole.inputs[1], whole.inputs[2]));
    const auto second = run_layer(*on, part(2, 3, first.outputs[1], first.outputs[2]));
    expect_same({second.outputs[1], second.outputs[2]}, {all.outputs[1], all.outputs[2]}, "state");
    EXPECT_TRUE(all.input_gradients[1].dims.empty());
  }
}

TEST(Lstm, DropsWeightsByTheMinibatchAndNeverTheStoredOnes) {
  constexpr float p = 0.5F;
  auto dropping = plain_call({3, 4, 5}, 6, 50, {.weight_drop = p});
  auto masked = plain_call({3, 4, 5}, 6, 50);
  random_key key = dropping.random;
  key.microbatch = 0;
  const dropout_random random(key, p);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < masked.weights[1].values.size(); ++i) {
    masked.weights[1].values[i] *= random.keeps(i) ? random.scale() : 0.0F;
    dropped += random.keeps(i) ? 0 : 1;
  }
  EXPECT_GT(dropped, 40U);
  EXPECT_LT(dropped, 104U); // of 144
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto found = run_layer(*on, dropping);
    auto wanted = run_layer(*on, masked);
    for (std::size_t i = 0; i < wanted.weight_gradients[1].values.size(); ++i)
      wanted.weight_gradients[1].values[i] *= random.keeps(i) ? random.scale() : 0.0F;
    expect_same(found.outputs, wanted.outputs, "output");
    expect_same(found.input_gradients, wanted.input_gradients, "input gradient");
    expect_same(found.weight_gradients, wanted.weight_gradients, "weight gradient");
    auto other = dropping;
    other.random.microbatch = 5;
    expect_same(run_layer(*on, other).outputs, found.outputs, "output of another micro-batch");
    other.random.minibatch += 1;
    EXPECT_NE(run_layer(*on, other).outputs[0].values, found.outputs[0].values) << "of another minibatch";
    other.mode = phase::evaluation;
    other.output_gradients.clear();
    auto whole = plain_call({3, 4, 5}, 6, 50);
    expect_same(run_layer(*on, other).outputs, run_layer(*on, whole).outputs, "output in evaluation");
  }
}

TEST(Lstm, KeepsFiveFloatsForEachUnitAndStepBesideItsInputAndItsOutput) {
  const auto on = open_stream(backends_under_test()[1]);
  const auto op = layers::lstm(64);
  on->run([&](backend& ops) {
    std::vector<tensor> inputs{to_device(ops, random_tensor({4, 6, 32}, 1))}, weights;
    for (const shape& dims : {shape{256, 32}, shape{256, 64}, shape{256}, shape{256}})
      weights.push_back(to_device(ops, random_tensor(dims, 2)));
    const auto input = inputs[0];
    run_context context{.ops = ops};
    const auto made = op->forward(context, inputs, weights);
    std::size_t bytes = 0;
    for (const auto& kept : made.saved)
      if (kept.raw() != input.raw() && kept.raw() != made.outputs[0].raw()) bytes += kept.bytes();
    EXPECT_EQ(bytes, 4U * 6 * 64 * 5 * sizeof(float));
  });
}

TEST(Lstm, ManyShapesLeaveNoMemoryBehind) {
  const auto device = open_device({});
  const auto on = device->create_stream({.name = "cpu", .threads = 1});
  const auto op = layers::lstm(9);
  on->run([&](backend& ops) {
    std::vector<tensor> weights;
    for (const shape& dims : {shape{36, 5}, shape{36, 9}, shape{36}, shape{36}})
      weights.push_back(to_device(ops, random_tensor(dims, 2)));
    const auto before = device->memory().usage().total_live_bytes;
    for (std::int64_t steps = 1; steps <= 40; ++steps)
      for (std::int64_t rows = 1; rows <= 15; ++rows) { // more than the primitives that are kept
        std::vector<tensor> inputs{ops.allocate_zeroed(dtype::f32, {rows, steps, 5}, memory_use::activations)};
        run_context context{.ops = ops};
        auto made = op->forward(context, inputs, weights);
        op->backward(context, made.outputs, weights, made.saved);
      }
    EXPECT_EQ(device->memory().usage().total_live_bytes, before);
  });
}

TEST(Lstm, SingleStepsThatComeAgainHaveTheBitsOfTheFirstAndKeepNothingBehindOthers) {
  const auto device = open_device({});
  const auto on = device->create_stream({.name = "cpu", .threads = 1});
  const auto op = layers::lstm(19, {.state = true});
  const auto weights_of = [](backend& ops, unsigned seed) {
    std::vector<tensor> weights;
    for (const shape& dims : {shape{76, 5}, shape{76, 19}, shape{76}, shape{76}})
      weights.push_back(to_device(ops, random_tensor(dims, seed++)));
    return weights;
  };
  on->run([&](backend& ops) {
    const auto outputs_of = [&](std::int64_t steps, std::span<const tensor> weights) {
      std::vector<tensor> inputs{to_device(ops, random_tensor({3, steps, 5}, 1)),
                                 to_device(ops, random_tensor({3, 19}, 2)), to_device(ops, random_tensor({3, 19}, 3))};
      run_context context{.ops = ops, .mode = phase::evaluation};
      std::vector<host_tensor> found;
      for (const auto& y : op->forward(context, inputs, weights).outputs)
        found.push_back(to_host(ops, y));
      return found;
    };
    const auto one = weights_of(ops, 10), other = weights_of(ops, 20);
    const auto before = device->memory().usage().total_live_bytes;
    const auto first = outputs_of(1, one), second = outputs_of(1, other);
    EXPECT_NE(first[0].values, second[0].values);
    for (int again = 0; again < 3; ++again) {
      expect_same(outputs_of(1, one), first, "output");
      expect_same(outputs_of(1, other), second, "output of other weights");
    }
    outputs_of(2, one);
    EXPECT_EQ(device->memory().usage().total_live_bytes, before);
  });
}

TEST(Lstm, SaysWhatItIs) {
  const std::vector<tensor_spec> inputs{{dtype::f32, {3, 5, 4}}};
  const auto op = layers::lstm(7);
  const auto parameters = op->parameters(inputs);
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[0].name, "weight_ih_l0");
  EXPECT_EQ(parameters[0].dims, (shape{28, 4}));
  EXPECT_EQ(parameters[1].name, "weight_hh_l0");
  EXPECT_EQ(parameters[1].dims, (shape{28, 7}));
  EXPECT_EQ(parameters[2].name, "bias_ih_l0");
  EXPECT_EQ(parameters[3].name, "bias_hh_l0");
  for (const auto& p : parameters) {
    EXPECT_EQ(p.init.kind, initializer_kind::uniform);
    EXPECT_FLOAT_EQ(p.init.value, 0.37796447F); // 1 / sqrt 7
  }
  EXPECT_TRUE(parameters[2].norm_or_bias && parameters[3].norm_or_bias);
  EXPECT_FALSE(parameters[0].norm_or_bias || parameters[1].norm_or_bias);
  EXPECT_EQ(op->infer(inputs)[0].dims, (shape{3, 5, 7}));
  EXPECT_EQ(op->forward_flops(inputs), 2.0 * 3 * 5 * 28 * 11);
  EXPECT_EQ(op->kind(), "lstm");
  const auto awd = layers::lstm(7, {.names = {.weight_hh = "weight_hh_l0_raw"},
                                    .biases = 1,
                                    .bias_ih_init = initializer{initializer_kind::constant, 0}});
  EXPECT_EQ(awd->parameters(inputs)[1].name, "weight_hh_l0_raw");
  EXPECT_EQ(awd->parameters(inputs).size(), 3U);
  EXPECT_EQ(awd->parameters(inputs)[2].init.kind, initializer_kind::constant);
}

TEST(Lstm, RefusesWhatItCannotRead) {
  using ::testing::ThrowsMessage;
  const auto infer = [](const layers::lstm_options& options, std::vector<tensor_spec> inputs) {
    layers::lstm(4, options)->infer(inputs);
  };
  const tensor_spec x{dtype::f32, {2, 3, 5}};
  EXPECT_THAT([] { layers::lstm(0); }, ThrowsMessage<usage_error>("lstm: hidden is 0, at least 1 is wanted"));
  EXPECT_THAT([] { layers::lstm(4, {.biases = 3}); },
              ThrowsMessage<usage_error>("lstm: biases is 3, 0, 1 or 2 is wanted"));
  EXPECT_THAT([] { layers::lstm(4, {.weight_drop = 1}); },
              ThrowsMessage<usage_error>("lstm: weight_drop is 1, at least 0 and less than 1 is wanted"));
  EXPECT_THAT([] { layers::lstm(4, {.reverse = true}); }, ThrowsMessage<usage_error>("lstm: reverse needs lengths"));
  EXPECT_THAT([] { layers::lstm(4, {.reverse = true, .lengths = true, .continues = true}); },
              ThrowsMessage<usage_error>("lstm: continues is not for reverse"));
  EXPECT_THAT([&] { infer({.lengths = true}, {x}); }, ThrowsMessage<usage_error>("1 input, 2 are wanted"));
  EXPECT_THAT(
      [&] {
        infer({}, {{dtype::f32, {2, 3}}});
      },
      ThrowsMessage<usage_error>("input has shape [2, 3], [N, T, F] is wanted"));
  EXPECT_THAT(
      [&] {
        infer({.lengths = true}, {x, {dtype::i64, {3}}});
      },
      ThrowsMessage<usage_error>("lengths is I64 [3], I64 [2] is wanted"));
  EXPECT_THAT(
      [&] {
        infer({.state = true}, {x, {dtype::f32, {2, 4}}, {dtype::f32, {2, 5}}});
      },
      ThrowsMessage<usage_error>("c is F32 [2, 5], F32 [2, 4] is wanted"));
}

} // namespace
} // namespace penstock::testing
