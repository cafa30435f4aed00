// Small cases worked out by hand, where one can see that the reference is right.
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/scalars.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace penstock::testing {

namespace {

using ::testing::ElementsAre;

layer_outcome run_on_reference(const layer_call& call) {
  return run_layer(*reference_stream(), call);
}

TEST(ReferenceConvolution, SlidesItsKernelOverThePaddedInput) {
  const auto found = run_on_reference(
      {.op = layers::conv2d({.in_channels = 1, .out_channels = 1, .kernel = {2, 2}, .args = {.padding = {1, 0}}}),
       .inputs = {{{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}},
       .weights = {{{1, 1, 2, 2}, {1, 10, 100, 1000}}, {{1}, {0.5F}}},
       .output_gradients = {{{1, 1, 3, 2}, {1, 0, 0, 0, 0, 1}}}});
  EXPECT_EQ(found.outputs[0].dims, (shape{1, 1, 3, 2}));
  EXPECT_THAT(found.outputs[0].values, ElementsAre(2100.5F, 3200.5F, 5421.5F, 6532.5F, 54.5F, 65.5F));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(100, 1000, 0, 0, 1, 10));
  EXPECT_THAT(found.weight_gradients[0].values, ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(found.weight_gradients[1].values, ElementsAre(2));
}

TEST(ReferenceConvolution, KeepsGroupsApart) {
  const auto found = run_on_reference(
      {.op = layers::conv2d({.in_channels = 2, .out_channels = 2, .args = {.groups = 2}, .bias = false}),
       .inputs = {{{1, 2, 1, 2}, {1, 2, 3, 4}}},
       .weights = {{{2, 1, 1, 1}, {10, 100}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(10, 20, 300, 400));
}

TEST(ReferenceLinear, MultipliesByTheTransposedWeight) {
  const auto found = run_on_reference({.op = layers::linear({.in_features = 2, .out_features = 3}),
                                       .inputs = {{{1, 2}, {1, 2}}},
                                       .weights = {{{3, 2}, {1, 0, 0, 1, -1, -1}}, {{3}, {0, 10, 0}}},
                                       .output_gradients = {{{1, 3}, {1, 1, 1}}},
                                       .fused_relu = true});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(1, 12, 0));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(1, 1)); // the third output is behind ReLU
  EXPECT_THAT(found.weight_gradients[0].values, ElementsAre(1, 2, 1, 2, 0, 0));
  EXPECT_THAT(found.weight_gradients[1].values, ElementsAre(1, 1, 0));
}

layer_call batch_norm_call() {
  return {.op = layers::batch_norm2d(1, {.epsilon = 0.25F, .momentum = 0.5F}),
          .inputs = {{{1, 1, 1, 2}, {1, 4}}},
          .weights = {{{1}, {10}}, {{1}, {3}}},
          .states = {{{1}, {1}}, {{1}, {1}}, {{}, {6}}}};
}

TEST(ReferenceBatchNorm, NormalisesWithTheBatchAndFollowsItWithTheRunningStatistics) {
  const auto found = run_on_reference(batch_norm_call()); // mean 2.5, biased variance 2.25, unbiased 4.5
  const float y = 15 / std::sqrt(2.5F);
  EXPECT_NEAR(found.outputs[0].values[0], 3 - y, 1e-5);
  EXPECT_NEAR(found.outputs[0].values[1], 3 + y, 1e-5);
  EXPECT_THAT(found.states[0].values, ElementsAre(1.75F));
  EXPECT_THAT(found.states[1].values, ElementsAre(2.75F));
  EXPECT_THAT(found.states[2].values, ElementsAre(7));
  EXPECT_EQ(found.states[2].dims, shape{});
}

TEST(ReferenceBatchNorm, LeavesItsStateAloneWhenRecomputing) {
  layer_call call = batch_norm_call();
  call.update_state = false;
  const auto found = run_on_reference(call);
  expect_same(found.states, call.states, "state");
  expect_same(found.outputs, run_on_reference(batch_norm_call()).outputs, "output");
}

TEST(ReferenceBatchNorm, UsesTheRunningStatisticsInEvaluationAndKeepsThem) {
  layer_call call = batch_norm_call();
  call.mode = phase::evaluation;
  call.states = {{{1}, {2}}, {{1}, {3.75F}}, {{}, {6}}};
  const auto found = run_on_reference(call); // deviation 2
  EXPECT_THAT(found.outputs[0].values, ElementsAre(-2, 13));
  expect_same(found.states, call.states, "state");
  EXPECT_EQ(found.saved, 0U);
}

TEST(ReferenceBatchNorm, RefusesToTrainOnOneValueAChannel) {
  layer_call call = batch_norm_call();
  call.inputs = {{{1, 1, 1, 1}, {5}}};
  call.output_gradients = {{{1, 1, 1, 1}, {2}}};
  EXPECT_THROW(run_on_reference(call), error);
}

TEST(ReferenceRelu, HasNoGradientAtZeroAndKeepsNaNs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto found = run_on_reference(
      {.op = layers::relu(), .inputs = {{{1, 4}, {-1, 0, 2, nan}}}, .output_gradients = {{{1, 4}, {5, 6, 7, 0}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(0, 0, 2, ::testing::IsNan()));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(0, 0, 7, 0));
}

TEST(ReferenceMaxPooling, GivesTheGradientToTheFirstOfEquals) {
  const auto found = run_on_reference({.op = layers::pool2d({.kind = pool_kind::max}),
                                       .inputs = {{{1, 1, 2, 4}, {3, 3, -2, -5, 3, 3, -4, -2}}},
                                       .output_gradients = {{{1, 1, 1, 2}, {5, 7}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(3, -2));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(5, 0, 7, 0, 0, 0, 0, 0));
}

TEST(ReferenceMaxPooling, NeverTakesThePadding) {
  const auto found = run_on_reference({.op = layers::pool2d({.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}}),
                                       .inputs = {{{1, 1, 2, 2}, {-1, -2, -3, -4}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(-1, -2, -3, -4));
}

layer_outcome average_of_four(bool ceil_mode, bool count_include_pad) {
  return run_on_reference({.op = layers::pool2d({.kind = pool_kind::average,
                                                 .kernel = {1, 3},
                                                 .stride = {1, 2},
                                                 .padding = {0, 1},
                                                 .ceil_mode = ceil_mode,
                                                 .count_include_pad = count_include_pad}),
                           .inputs = {{{1, 1, 1, 4}, {3, 6, 12, 24}}}});
}

TEST(ReferenceAveragePooling, CountsThePaddingOnlyWhenAsked) {
  EXPECT_THAT(average_of_four(false, true).outputs[0].values, ElementsAre(3, 14));
  EXPECT_THAT(average_of_four(false, false).outputs[0].values, ElementsAre(4.5F, 14));
}

TEST(ReferenceAveragePooling, NeverCountsWhatLiesBeyondThePadding) {
  EXPECT_THAT(average_of_four(true, true).outputs[0].values, ElementsAre(3, 14, 12)); // 24 and one of padding
  EXPECT_THAT(average_of_four(true, false).outputs[0].values, ElementsAre(4.5F, 14, 24));
}

TEST(ReferenceAdaptivePooling, HasOverlappingBinsWhereTheyDoNotDivide) {
  const auto found = run_on_reference({.op = layers::adaptive_average_pool2d({1, 2}),
                                       .inputs = {{{1, 1, 1, 3}, {1, 3, 5}}},
                                       .output_gradients = {{{1, 1, 1, 2}, {2, 4}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(2, 4));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(1, 3, 2));
}

TEST(ReferenceConcat, PutsChannelsSideBySideForEverySample) {
  const auto found =
      run_on_reference({.op = layers::concat(),
                        .inputs = {{{2, 1, 1, 2}, {1, 2, 3, 4}}, {{2, 2, 1, 2}, {5, 6, 7, 8, 9, 10, 11, 12}}},
                        .output_gradients = {{{2, 3, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}}});
  EXPECT_THAT(found.outputs[0].values, ElementsAre(1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12));
  EXPECT_THAT(found.input_gradients[0].values, ElementsAre(1, 2, 7, 8));
  EXPECT_THAT(found.input_gradients[1].values, ElementsAre(3, 4, 5, 6, 9, 10, 11, 12));
}

TEST(ReferenceLoss, IsTheNegativeLogOfTheProbabilityOfTheLabel) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    const host_tensor logits{{2, 2}, {0, std::log(3.0F), 1000, 1000}}; // probabilities 1/4, 3/4; 1/2, 1/2
    const classifier_head head;
    const auto value = head.forward(ops, to_device(ops, logits), labels_to_device(ops, {0, 1}));
    EXPECT_NEAR(metrics_of(value).loss_sum, std::log(4.0) + std::log(2.0), 1e-6);
    EXPECT_EQ(metrics_of(value).correct_top1, 0); // of equals the first class counts as the guess
    EXPECT_EQ(metrics_of(value).correct_top5, 2);
    const auto gradient = to_host(ops, head.backward(ops, value, 2));
    EXPECT_LE(relative_distance(gradient.values, {-1.5F, 1.5F, 1, -1}), 1e-6);
  });
}

TEST(ReferenceLoss, IsNotFiniteAndNeverCorrectWhenLogitsAreNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto on = reference_stream();
  on->run([&](backend& ops) {
    const host_tensor logits{{2, 3}, {nan, nan, nan, 1, nan, 0}};
    const auto value = classifier_head().forward(ops, to_device(ops, logits), labels_to_device(ops, {0, 1}));
    EXPECT_FALSE(std::isfinite(metrics_of(value).loss_sum));
    EXPECT_EQ(metrics_of(value).correct_top1, 0);
    EXPECT_EQ(metrics_of(value).correct_top5, 0);
  });
}

TEST(ReferenceLoss, RefusesALabelThatIsNoClass) {
  const auto on = reference_stream();
  for (const std::int64_t label : {std::int64_t{3}, std::int64_t{-1}})
    on->run([&](backend& ops) {
      try {
        metrics_of(classifier_head().forward(ops, to_device(ops, {{2, 3}, {0, 0, 0, 0, 0, 0}}),
                                             labels_to_device(ops, {0, label})));
        ADD_FAILURE() << "label " << label << " was taken";
      } catch (const error& refusal) {
        EXPECT_EQ(refusal.what(), "label " + std::to_string(label) + " of sample 1 is outside 0..2");
      }
    });
}

TEST(ReferenceBackend, OverwritesOnlyTensorsThatNobodyElseHolds) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    tensor x = to_device(ops, {{1, 2}, {-1, 2}});
    const void* bytes = x.raw();
    tensor kept = x;
    const tensor apart = ops.get<elementwise_ops>().relu_forward(std::move(x));
    EXPECT_NE(apart.raw(), bytes);
    EXPECT_THAT(to_host(ops, kept).values, ElementsAre(-1, 2));
    EXPECT_EQ(ops.get<elementwise_ops>().relu_forward(std::move(kept)).raw(), bytes);
  });
}

TEST(ReferenceBackend, SumsSquaresAndAccumulates) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    tensor x = to_device(ops, {{2, 2}, {1, -2, 3, 0.5F}});
    EXPECT_EQ(sum_of_squares(ops, x), 14.25);
    ops.get<elementwise_ops>().accumulate(x, to_device(ops, {{2, 2}, {1, 1, 1, 1}}));
    EXPECT_THAT(to_host(ops, x).values, ElementsAre(2, -1, 4, 1.5F));
    ops.fill(x, 7);
    EXPECT_EQ(sum_of_squares(ops, x), 196);
  });
}

} // namespace

} // namespace penstock::testing
