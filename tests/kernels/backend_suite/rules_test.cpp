// What every backend promises beyond its formulas: masks, ties, NaNs, fusion to the bit, refusals, handles.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/initialise.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "kernels/optimizer.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/scalars.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace penstock::testing {

namespace {

const float nan = std::numeric_limits<float>::quiet_NaN();

class BackendRules : public ::testing::TestWithParam<backend_under_test> {
protected:
  std::unique_ptr<stream> on_ = open_stream(GetParam());
};

TEST_P(BackendRules, EveryLayoutGivesItsValuesBack) {
  on_->run([](backend& ops) {
    for (const shape& dims :
         {shape{2, 3, 4, 5}, shape{1, 16, 3, 3}, shape{2, 17, 1, 2}, shape{3, 64, 2, 2}, shape{4, 7}}) {
      const host_tensor x = random_tensor(dims, 1);
      const tensor there = to_device(ops, x);
      EXPECT_EQ(to_host(ops, there).values, x.values) << to_string(dims);
      EXPECT_EQ(ops.reorder(there, there.format(), memory_use::scratch).raw(), there.raw()) << "a needless copy";
    }
  });
}

TEST_P(BackendRules, ReorderingRowsGivesTheBytesOfReorderingAll) {
  on_->run([](backend& ops) {
    for (const shape& dims : {shape{200, 37}, shape{64, 16}, shape{65, 130}, shape{10, 128}, shape{129, 1}}) {
      const auto format = ops.get<linear_ops>().linear_weight_format({4, dims[1]}, dims);
      const tensor all = to_device(ops, random_tensor(dims, 5));
      const tensor wanted = ops.reorder(all, format, memory_use::weights);
      const tensor target = ops.allocate_zeroed(dtype::f32, dims, memory_use::weights, format);
      for (const std::int64_t blocks : {1, 2}) {
        for (std::int64_t first = 0; first < dims[0]; first += blocks * backend::row_block) {
          const shape piece{std::min(blocks * backend::row_block, dims[0] - first), dims[1]};
          const tensor rows = ops.allocate(dtype::f32, piece, memory_use::scratch);
          std::copy_n(all.data<float>() + first * dims[1], rows.elements(), rows.data<float>());
          ops.reorder_rows(rows, first, target);
        }
        EXPECT_EQ(std::memcmp(target.raw(), wanted.raw(), wanted.bytes()), 0) << to_string(dims);
      }
    }
  });
}

TEST_P(BackendRules, ADrawnParameterIsTheReorderedPlainOne) {
  on_->run([](backend& ops) {
    const initializer normal{initializer_kind::normal, 0.01F};
    for (const shape& dims : {shape{1030, 9001}, shape{100, 37}, shape{3, 5}, shape{16, 32, 3, 3}, shape{7}}) {
      const format_ptr format = dims.size() == 4
                                    ? ops.get<convolution_ops>().conv2d_weight_format({}, {1, 32, 8, 8}, dims)
                                : dims.size() == 2 ? ops.get<linear_ops>().linear_weight_format({4, dims[1]}, dims)
                                                   : nullptr;
      const tensor plain = ops.allocate(dtype::f32, dims, memory_use::scratch);
      initialise({plain.data<float>(), static_cast<std::size_t>(plain.elements())}, normal, 3, "w");
      const tensor wanted = ops.reorder(plain, format, memory_use::weights);
      const tensor drawn = initial_parameter(ops, {.name = "weight", .dims = dims, .init = normal}, "w", format, 3);
      ASSERT_TRUE(same_format(drawn.format(), format));
      EXPECT_EQ(std::memcmp(drawn.raw(), wanted.raw(), wanted.bytes()), 0) << to_string(dims);
    }
    const parameter_spec infinite{.name = "weight", .dims = {128, 64}, .init = {initializer_kind::constant, 1 / 0.0F}};
    EXPECT_THAT(
        [&] {
          initial_parameter(ops, infinite, "fc.weight", ops.get<linear_ops>().linear_weight_format({4, 64}, {128, 64}),
                            3);
        },
        ::testing::ThrowsMessage<error>(::testing::HasSubstr("the initial value of fc.weight holds inf at [0, 0]")));
  });
}

TEST_P(BackendRules, BatchNormTrainsOnTwoValuesAChannelAndRefusesOne) {
  for (const bool training : {true, false}) {
    layer_call call{.op = layers::batch_norm2d(3), .inputs = {random_tensor({1, 3, 1, 1}, 1)}};
    call.mode = training ? phase::training : phase::evaluation;
    call.weights = {{{3}, {1, 1, 1}}, {{3}, {0, 0, 0}}};
    call.states = {{{3}, {0, 0, 0}}, {{3}, {1, 1, 1}}};
    call.update_state = false;
    if (training)
      EXPECT_THAT([&] { run_layer(*on_, call); },
                  ::testing::ThrowsMessage<error>(::testing::HasSubstr(
                      "batch_norm2d: input [1, 3, 1, 1] has one value a channel, which has no variance")));
    else
      EXPECT_NO_THROW(run_layer(*on_, call));
    for (const shape& dims : {shape{2, 3, 1, 1}, shape{1, 3, 1, 2}}) {
      call.inputs = {random_tensor(dims, 1)};
      EXPECT_NO_THROW(run_layer(*on_, call));
    }
  }
}

TEST_P(BackendRules, DropoutKeepsWhatTheSharedRuleKeepsInEveryLayout) {
  const layer_call call{.op = layers::dropout(0.375F)};
  for (const shape& dims : {shape{2, 3, 4, 5}, shape{1, 16, 3, 3}, shape{2, 17, 1, 2}, shape{5, 9}}) {
    layer_call one = call;
    one.inputs = {random_tensor(dims, 2, 0.1F)};
    one.output_gradients = {random_tensor(dims, 3, 0.1F)};
    const layer_outcome found = run_layer(*on_, one);
    for (std::size_t i = 0; i < one.inputs[0].values.size(); ++i) {
      const float factor = dropout_keeps(one.random, i, 0.375F) ? 1 / (1 - 0.375F) : 0.0F;
      ASSERT_EQ(found.outputs[0].values[i], one.inputs[0].values[i] * factor) << to_string(dims) << " element " << i;
      ASSERT_EQ(found.input_gradients[0].values[i], one.output_gradients[0].values[i] * factor) << to_string(dims);
    }
  }
}

TEST_P(BackendRules, MaxPoolingGivesTheGradientToTheFirstOfEquals) {
  for (const std::int64_t channels : {1, 16, 19}) {
    const shape dims{1, channels, 2, 4};
    layer_call call{.op = layers::pool2d({}), .inputs = {{dims, {}}}, .output_gradients = {{{1, channels, 1, 2}, {}}}};
    std::vector<float> expected;
    for (std::int64_t c = 0; c < channels; ++c) {
      call.inputs[0].values.insert(call.inputs[0].values.end(), {3, 3, -2, -5, 3, 3, -4, -2});
      call.output_gradients[0].values.insert(call.output_gradients[0].values.end(), {5, 7});
      expected.insert(expected.end(), {5, 0, 7, 0, 0, 0, 0, 0});
    }
    EXPECT_EQ(run_layer(*on_, call).input_gradients[0].values, expected) << channels << " channels";
  }
}

// The same call with ReLU fused, and as a layer of its own behind.
void expect_fusion_changes_no_bit(stream& on, layer_call call) {
  call.fused_relu = true;
  const layer_outcome fused = run_layer(on, call);
  layer_call apart = call;
  apart.fused_relu = false;
  apart.output_gradients.clear();
  const layer_outcome before = run_layer(on, apart);
  const layer_outcome relu =
      run_layer(on, {.op = layers::relu(), .inputs = before.outputs, .output_gradients = call.output_gradients});
  apart.output_gradients = relu.input_gradients;
  const layer_outcome back = run_layer(on, apart);
  expect_same(fused.outputs, relu.outputs, std::string(call.op->kind()) + " output");
  expect_same(fused.input_gradients, back.input_gradients, std::string(call.op->kind()) + " input gradient");
  expect_same(fused.weight_gradients, back.weight_gradients, std::string(call.op->kind()) + " weight gradient");
}

TEST_P(BackendRules, FusingReluChangesNoBit) {
  for (const std::int64_t channels : {3, 16, 20}) {
    const shape dims{2, channels, 5, 4};
    const host_tensor x = random_tensor(dims, 5), dy = random_tensor(dims, 6);
    expect_fusion_changes_no_bit(
        *on_, {.op = layers::add(), .inputs = {x, random_tensor(dims, 7)}, .output_gradients = {dy}});
    expect_fusion_changes_no_bit(
        *on_, {.op = layers::conv2d(
                   {.in_channels = channels, .out_channels = channels, .kernel = {3, 3}, .args = {.padding = {1, 1}}}),
               .inputs = {x},
               .weights = {random_tensor({channels, channels, 3, 3}, 8), random_tensor({channels}, 9)},
               .output_gradients = {dy}});
    expect_fusion_changes_no_bit(*on_,
                                 {.op = layers::batch_norm2d(channels),
                                  .inputs = {x},
                                  .weights = {random_tensor({channels}, 10), random_tensor({channels}, 11)},
                                  .states = {random_tensor({channels}, 12),
                                             {{channels}, std::vector<float>(static_cast<std::size_t>(channels), 1)},
                                             {{}, {0}}},
                                  .output_gradients = {dy}});
    expect_fusion_changes_no_bit(*on_, {.op = layers::linear({.in_features = channels, .out_features = 7}),
                                        .inputs = {random_tensor({3, channels}, 13)},
                                        .weights = {random_tensor({7, channels}, 14), random_tensor({7}, 15)},
                                        .output_gradients = {random_tensor({3, 7}, 16)}});
  }
}

TEST_P(BackendRules, ALabelThatIsNoClassIsRefused) {
  for (const std::int64_t label : {std::int64_t{3}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_THROW(on_->run([&](backend& ops) {
      metrics_of(classifier_head().forward(ops, to_device(ops, {{2, 3}, {0, 0, 0, 0, 0, 0}}),
                                           labels_to_device(ops, {0, label})));
    }),
                 error)
        << label;
}

TEST_P(BackendRules, LogitsThatAreNaNGiveALossThatIsNotFiniteAndNoCorrectGuess) {
  on_->run([](backend& ops) {
    const host_tensor logits{{2, 6}, {nan, nan, nan, nan, nan, nan, 1, nan, 0, 2, 3, 4}};
    const auto value = classifier_head().forward(ops, to_device(ops, logits), labels_to_device(ops, {0, 1}));
    EXPECT_FALSE(std::isfinite(metrics_of(value).loss_sum));
    EXPECT_EQ(metrics_of(value).correct_top1, 0);
    EXPECT_EQ(metrics_of(value).correct_top5, 0);
    const host_tensor few{{3, 3}, {nan, nan, nan, nan, 1, 2, 1, nan, 2}}; // fewer classes than top-5 looks at
    const auto of_few = classifier_head().forward(ops, to_device(ops, few), labels_to_device(ops, {2, 0, 1}));
    EXPECT_FALSE(std::isfinite(metrics_of(of_few).loss_sum));
    EXPECT_EQ(metrics_of(of_few).correct_top1, 0);
    EXPECT_EQ(metrics_of(of_few).correct_top5, 0);
  });
}

TEST_P(BackendRules, ReluKeepsNaNUnlessALibraryFusesIt) {
  for (const std::int64_t channels : {3, 16, 20}) {
    host_tensor x = random_tensor({2, channels, 5, 4}, 30);
    x.values[7] = nan; // of channel 0
    const auto count_nan = [](const host_tensor& t) {
      return std::count_if(t.values.begin(), t.values.end(), [](float v) { return std::isnan(v); });
    };
    const auto zeros = host_tensor{x.dims, std::vector<float>(x.values.size())};
    EXPECT_EQ(count_nan(run_layer(*on_, {.op = layers::relu(), .inputs = {x}}).outputs[0]), 1);
    EXPECT_EQ(count_nan(run_layer(*on_, {.op = layers::add(), .inputs = {x, zeros}, .fused_relu = true}).outputs[0]),
              1);
    const std::vector<float> ones(static_cast<std::size_t>(channels), 1);
    const auto norm = run_layer(*on_, {.op = layers::batch_norm2d(channels),
                                       .inputs = {x},
                                       .weights = {{{channels}, ones}, {{channels}, ones}},
                                       .states = {{{channels}, ones}, {{channels}, ones}, {{}, {0}}},
                                       .fused_relu = true});
    EXPECT_TRUE(std::isnan(norm.states[0].values[0]) && std::isnan(norm.states[1].values[0]));
    host_tensor row = random_tensor({2, channels}, 31);
    row.values[1] = nan;
    const auto linear = run_layer(*on_, {.op = layers::linear({.in_features = channels, .out_features = 7}),
                                         .inputs = {row},
                                         .weights = {random_tensor({7, channels}, 14), random_tensor({7}, 15)},
                                         .fused_relu = true});
    EXPECT_EQ(count_nan(linear.outputs[0]), 7);
  }
}

// Large enough for several threads.
TEST_P(BackendRules, OptimizersSayWhetherTheNewWeightsAreFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  on_->run([&](backend& ops) {
    const shape dims{40000};
    for (const optimizer_options& options :
         {optimizer_options{.name = "sgd", .momentum = 0}, optimizer_options{.name = "sgd", .momentum = 0.9F},
          optimizer_options{.name = "sgd", .momentum = 0.9F, .nesterov = true}, optimizer_options{.name = "adamw"},
          optimizer_options{.name = "adam", .weight_decay = 0.1F}, optimizer_options{.name = "asgd"}}) {
      const auto step = make_optimizer(options);
      const auto outcome = [&](float in_weight, float in_gradient, std::size_t at) {
        host_tensor weight = random_tensor(dims, 32), gradient = random_tensor(dims, 33);
        weight.values[at] += in_weight;
        gradient.values[at] += in_gradient;
        optimizer_state state;
        tensor next = to_device(ops, weight);
        const auto strange = one_flag(ops);
        step->step(ops, 0.1F, 1, true, next, to_device(ops, gradient), state, next, strange, 0);
        const bool finite = !is_set(strange);
        const auto values = to_host(ops, next).values;
        EXPECT_EQ(finite, std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
        return finite;
      };
      EXPECT_TRUE(outcome(0, 0, 0)) << options.name;
      for (const std::size_t at : {std::size_t{0}, std::size_t{20001}, std::size_t{39999}}) {
        EXPECT_FALSE(outcome(0, nan, at)) << options.name << " " << at;
        EXPECT_FALSE(outcome(0, infinity, at)) << options.name << " " << at;
        EXPECT_FALSE(outcome(infinity, 0, at)) << options.name << " " << at;
        EXPECT_FALSE(outcome(-infinity, 0, at)) << options.name << " " << at;
      }
    }
  });
}

// The output for a shift that makes some values of y all but zero: which side they are on must be the same everywhere.
TEST_P(BackendRules, FusingReluChangesNoBitWhereRoundingDecides) {
  for (const std::int64_t channels : {3, 16, 20}) {
    const shape dims{2, channels, 6, 7};
    const std::vector<host_tensor> states{{{channels}, std::vector<float>(static_cast<std::size_t>(channels))},
                                          {{channels}, std::vector<float>(static_cast<std::size_t>(channels), 1)},
                                          {{}, {0}}};
    layer_call call{.op = layers::batch_norm2d(channels),
                    .inputs = {random_tensor(dims, 34)},
                    .weights = {random_tensor({channels}, 35), random_tensor({channels}, 36)},
                    .states = states,
                    .output_gradients = {random_tensor(dims, 37)}};
    for (auto& v : call.inputs[0].values)
      v = std::round(v * 2) / 2; // many equal values
    layer_call without = call;
    std::fill(without.weights[1].values.begin(), without.weights[1].values.end(), 0.0F);
    const auto y = run_layer(*on_, without).outputs[0].values;
    for (std::int64_t c = 0; c < channels; ++c)
      call.weights[1].values[static_cast<std::size_t>(c)] = -y[static_cast<std::size_t>(c * 42 + c)];
    expect_fusion_changes_no_bit(*on_, call);
  }
}

TEST_P(BackendRules, LargeLogitsDoNotOverflow) {
  on_->run([](backend& ops) {
    const auto value = classifier_head().forward(ops, to_device(ops, {{2, 2}, {3e4F, 3e4F, -3e4F, 3e4F}}),
                                                 labels_to_device(ops, {0, 0}));
    EXPECT_NEAR(metrics_of(value).loss_sum, std::log(2.0) + 6e4, 1e-2);
    EXPECT_THAT(to_host(ops, value.saved[0]).values, ::testing::ElementsAre(0.5F, 0.5F, 0, 1));
  });
}

TEST_P(BackendRules, OneValueAChannelIsNoStatisticToTrainOnButIsEvaluated) {
  layer_call call{.op = layers::batch_norm2d(2),
                  .inputs = {{{1, 2, 1, 1}, {5, -3}}},
                  .weights = {{{2}, {10, 10}}, {{2}, {3, 4}}},
                  .states = {{{2}, {5, -3}}, {{2}, {1, 1}}, {{}, {0}}},
                  .output_gradients = {{{1, 2, 1, 1}, {2, 2}}}};
  EXPECT_THROW(run_layer(*on_, call), error);
  call.mode = phase::evaluation;
  call.output_gradients.clear();
  EXPECT_EQ(run_layer(*on_, call).outputs[0].values, (std::vector<float>{3, 4}));
}

TEST_P(BackendRules, SumsAndFillsSeeTheElementsAlone) {
  on_->run([](backend& ops) { // 17 channels: a blocked layout pads them
    const host_tensor x = random_tensor({2, 17, 3, 2}, 17), y = random_tensor({2, 17, 3, 2}, 18);
    double squares = 0;
    for (const float value : x.values)
      squares += static_cast<double>(value) * value;
    tensor sum = to_device(ops, x);
    EXPECT_NEAR(sum_of_squares(ops, sum), squares, 1e-9 * squares);
    ops.get<elementwise_ops>().accumulate(sum, to_device(ops, y));
    const auto found = to_host(ops, sum).values;
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], x.values[i] + y.values[i]);
    ops.fill(sum, 0);
    EXPECT_EQ(sum_of_squares(ops, sum), 0);
    ops.fill(sum, 2);
    EXPECT_THAT(to_host(ops, sum).values, ::testing::Each(2));
  });
}

TEST_P(BackendRules, GradientsNobodyWantsAreNone) {
  const shape dims{2, 3, 4, 4};
  layer_call call{.op = layers::conv2d({.in_channels = 3, .out_channels = 5, .kernel = {3, 3}}),
                  .inputs = {random_tensor(dims, 19)},
                  .weights = {random_tensor({5, 3, 3, 3}, 20), random_tensor({5}, 21)},
                  .output_gradients = {random_tensor({2, 5, 2, 2}, 22)}};
  const layer_outcome all = run_layer(*on_, call);
  call.need_input_gradient = {false};
  const layer_outcome weights_only = run_layer(*on_, call);
  EXPECT_TRUE(weights_only.input_gradients.at(0).values.empty());
  expect_same(weights_only.weight_gradients, all.weight_gradients, "weight gradient");
  call.need_input_gradient = {true};
  call.need_weight_gradient = false;
  const layer_outcome input_only = run_layer(*on_, call);
  expect_same(input_only.input_gradients, all.input_gradients, "input gradient");
  ASSERT_EQ(input_only.weight_gradients.size(), 2U);
  EXPECT_TRUE(input_only.weight_gradients[0].values.empty() && input_only.weight_gradients[1].values.empty());
}

INSTANTIATE_TEST_SUITE_P(Suite, BackendRules, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& which) { return which.param.name; });

} // namespace

} // namespace penstock::testing
