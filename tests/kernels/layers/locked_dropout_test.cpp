// Locked dropout, and AWD-LSTM's penalties of activations.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/layers/locked_dropout.hpp"
#include "kernels/ops/recurrent_ops.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

// Rows, steps and features of different extents, so that a mask over other axes than (row, feature) is found.
TEST(LockedDropout, DropsAnElementInAllStepsOrInNone) {
  const float p = 0.4F;
  auto call = random_call(layers::locked_dropout(p), {random_tensor({5, 7, 11}, 1, 0.01F)}, 2);
  const dropout_random random(call.random, p);
  std::size_t dropped = 0;
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto found = run_layer(*open_stream(backend), call);
    for (std::size_t b = 0; b < 5; ++b)
      for (std::size_t t = 0; t < 7; ++t)
        for (std::size_t f = 0; f < 11; ++f) {
          const std::size_t at = (b * 7 + t) * 11 + f;
          const float factor = random.keeps(b * 11 + f) ? random.scale() : 0.0F;
          EXPECT_EQ(found.outputs[0].values[at], call.inputs[0].values[at] * factor);
          EXPECT_EQ(found.input_gradients[0].values[at], call.output_gradients[0].values[at] * factor);
          if (t == 0) dropped += factor == 0 ? 1 : 0;
        }
  }
  EXPECT_GT(dropped, 4U * 10);
  EXPECT_LT(dropped, 4U * 40); // of 55 a backend
}

TEST(LockedDropout, KeepsWhatEveryLayerPromisesAndNothingForTheBackward) {
  const auto call = random_call(layers::locked_dropout(0.3F), {random_tensor({6, 5, 1300}, 3)}, 4);
  expect_backends_agree(call);
  EXPECT_EQ(run_layer(*reference_stream(), call).saved, 0U);
}

TEST(LockedDropout, DoesNothingInEvaluationOrAtRateZero) {
  auto call = random_call(layers::locked_dropout(0.5F), {random_tensor({2, 3, 4}, 5)}, 6);
  call.mode = phase::evaluation;
  call.output_gradients.clear();
  expect_same(run_layer(*reference_stream(), call).outputs, call.inputs, "output");
  call = random_call(layers::locked_dropout(0), {random_tensor({2, 3, 4}, 5)}, 6);
  expect_same(run_layer(*reference_stream(), call).outputs, call.inputs, "output");
  expect_same(run_layer(*reference_stream(), call).input_gradients, call.output_gradients, "gradient");
}

TEST(LockedDropout, RefusesWhatItCannotDrop) {
  using ::testing::ThrowsMessage;
  EXPECT_THAT([] { layers::locked_dropout(1); },
              ThrowsMessage<usage_error>("locked_dropout: rate is 1, at least 0 and less than 1 is wanted"));
  EXPECT_THAT(
      [] {
        layers::locked_dropout(0.5F)->infer(std::vector<tensor_spec>{{dtype::f32, {2, 3}}});
      },
      ThrowsMessage<usage_error>("input has shape [2, 3], [N, T, F] is wanted"));
}

struct penalty_values {
  double sum = 0;
  host_tensor gradient;
};

penalty_values penalty_of(stream& on, penalty kind, const host_tensor& h, float factor) {
  penalty_values result;
  on.run([&](backend& ops) {
    auto& recurrent = ops.get<recurrent_ops>();
    const tensor x = to_device(ops, h);
    result.sum = recurrent.penalty_sum(kind, x, factor).data<double>()[0];
    result.gradient = to_host(ops, recurrent.penalty_gradient(kind, x, factor));
  });
  return result;
}

TEST(ActivationPenalty, IsTheSumOfSquaresAndOfTheirStepsAndItsGradientTheSlope) {
  const host_tensor h = random_tensor({3, 5, 7}, 8);
  const auto value = [&](std::size_t i) { return static_cast<double>(h.values[i]); };
  double squares = 0, steps = 0;
  host_tensor by_squares = h, by_steps = h;
  for (std::size_t i = 0; i < h.values.size(); ++i) {
    const std::size_t t = i / 7 % 5;
    squares += value(i) * value(i);
    by_squares.values[i] = static_cast<float>(0.5 * 2 * value(i));
    double slope = 0;
    if (t > 0) steps += (value(i) - value(i - 7)) * (value(i) - value(i - 7)), slope += value(i) - value(i - 7);
    if (t < 4) slope -= value(i + 7) - value(i);
    by_steps.values[i] = static_cast<float>(0.5 * 2 * slope);
  }
  for (const auto& backend : backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto activation = penalty_of(*on, penalty::activation, h, 0.5F),
               step = penalty_of(*on, penalty::step, h, 0.5F);
    EXPECT_NEAR(activation.sum, 0.5 * squares, 1e-9 * squares);
    EXPECT_NEAR(step.sum, 0.5 * steps, 1e-9 * steps);
    expect_close(activation.gradient, by_squares, 1e-6, "gradient of the squares");
    expect_close(step.gradient, by_steps, 1e-6, "gradient of the steps");
  }
}

TEST(ActivationPenalty, OfOneStepHasNoStepsAndSumsHaveTheSameBitsForAnyNumberOfThreads) {
  EXPECT_EQ(penalty_of(*reference_stream(), penalty::step, random_tensor({3, 1, 4}, 1), 1).sum, 0);
  const host_tensor h = random_tensor({20, 9, 400}, 9);
  const auto backends = backends_under_test();
  const auto one = open_stream(backends[1]), two = open_stream(backends[2]);
  for (const auto kind : {penalty::activation, penalty::step})
    EXPECT_EQ(penalty_of(*one, kind, h, 1).sum, penalty_of(*two, kind, h, 1).sum);
  EXPECT_EQ(penalty_of(*one, penalty::step, random_tensor({3, 1, 4}, 1), 1).sum, 0);
}

} // namespace
} // namespace penstock::testing
