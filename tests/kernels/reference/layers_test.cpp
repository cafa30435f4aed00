// What layers say of themselves: shapes, parameters, refusals, what they keep, and how dropout repeats.
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"

#include <gmock/gmock.h>

#include <functional>

namespace penstock::testing {

namespace {

std::string refusal_of(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const usage_error& refusal) {
    return refusal.what();
  }
  return "";
}

std::string refusal_of(const layer_ptr& op, const std::vector<tensor_spec>& inputs) {
  return refusal_of([&] { op->infer(inputs); });
}

tensor_spec f32(shape dims) {
  return {dtype::f32, std::move(dims)};
}

layer_ptr conv(layers::conv2d_options options) {
  return layers::conv2d(std::move(options));
}

TEST(LayerRefusals, NameWhatAConvolutionFoundAndWanted) {
  const auto op = conv({.in_channels = 4, .out_channels = 8, .kernel = {3, 5}});
  EXPECT_EQ(refusal_of(op, {}), "0 inputs, 1 is wanted");
  EXPECT_EQ(refusal_of(op, {f32({1, 4, 8, 8}), f32({1, 4, 8, 8})}), "2 inputs, 1 is wanted");
  EXPECT_EQ(refusal_of(op, {{dtype::u8, {1, 4, 8, 8}}}), "input is U8, F32 is wanted");
  EXPECT_EQ(refusal_of(op, {{dtype::i64, {1, 4, 8, 8}}}), "input is I64, F32 is wanted");
  EXPECT_EQ(refusal_of(op, {f32({1, 4})}), "input has shape [1, 4], [N, C, H, W] is wanted");
  EXPECT_EQ(refusal_of(op, {f32({1, 3, 8, 8})}), "input has 3 channels, 4 are wanted");
  EXPECT_EQ(refusal_of(op, {f32({1, 4, 2, 8})}), "input 2x8 is smaller than kernel 3x5");
  const auto wide =
      conv({.in_channels = 1, .out_channels = 1, .kernel = {3, 3}, .args = {.padding = {1, 1}, .dilation = {2, 2}}});
  EXPECT_EQ(refusal_of(wide, {f32({1, 1, 2, 9})}), "input 2x9 with padding 1x1 is smaller than kernel 5x5");
}

TEST(LayerRefusals, NameTheOptionOfAConvolution) {
  EXPECT_EQ(refusal_of([] { conv({.out_channels = 8}); }), "conv2d: in_channels is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { conv({.in_channels = 4}); }), "conv2d: out_channels is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] {
              conv({.in_channels = 4, .out_channels = 4, .kernel = {3, 0}});
            }),
            "conv2d: kernel is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] {
              conv({.in_channels = 4, .out_channels = 4, .args = {.stride = {0, 1}}});
            }),
            "conv2d: stride is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] {
              conv({.in_channels = 4, .out_channels = 4, .args = {.padding = {0, -1}}});
            }),
            "conv2d: padding is -1, at least 0 is wanted");
  EXPECT_EQ(refusal_of([] {
              conv({.in_channels = 4, .out_channels = 4, .args = {.dilation = {0, 1}}});
            }),
            "conv2d: dilation is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { conv({.in_channels = 4, .out_channels = 4, .args = {.groups = 0}}); }),
            "conv2d: groups is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { conv({.in_channels = 4, .out_channels = 6, .args = {.groups = 4}}); }),
            "conv2d: out_channels 6 is not a multiple of groups 4");
  EXPECT_EQ(refusal_of([] { conv({.in_channels = 5, .out_channels = 6, .args = {.groups = 2}}); }),
            "conv2d: in_channels 5 is not a multiple of groups 2");
}

TEST(LayerRefusals, NameWhatTheOtherLayersFoundAndWanted) {
  const auto linear = layers::linear({.in_features = 4, .out_features = 2});
  EXPECT_EQ(refusal_of(linear, {f32({1, 4, 1, 1})}), "input has 1 features, 4 are wanted");
  EXPECT_EQ(refusal_of(linear, {f32({1, 5})}), "input has 5 features, 4 are wanted");
  EXPECT_EQ(refusal_of(layers::batch_norm2d(3), {f32({1, 4, 2, 2})}), "input has 4 channels, 3 are wanted");
  EXPECT_EQ(refusal_of(layers::batch_norm2d(3), {f32({1, 3})}), "input has shape [1, 3], [N, C, H, W] is wanted");
  EXPECT_EQ(refusal_of(layers::pool2d({}), {f32({1, 4, 1, 1})}), "input 1x1 is smaller than kernel 2x2");
  EXPECT_EQ(refusal_of(layers::pool2d({.ceil_mode = true}), {f32({1, 4, 1, 3})}),
            "input 1x3 is smaller than kernel 2x2");
  EXPECT_EQ(refusal_of(layers::adaptive_average_pool2d({1, 1}), {f32({1, 4})}),
            "input has shape [1, 4], [N, C, H, W] is wanted");
  EXPECT_EQ(refusal_of(layers::flatten(), {f32({4})}), "input has shape [4], two axes or more are wanted");
  EXPECT_EQ(refusal_of(layers::add(), {f32({1, 4})}), "1 input, 2 are wanted");
  EXPECT_EQ(refusal_of(layers::add(), {f32({1, 4}), f32({1, 5})}),
            "inputs have shapes [1, 4] and [1, 5], equal ones are wanted");
  EXPECT_EQ(refusal_of(layers::concat(), {f32({1, 4})}), "1 input, 2 or more are wanted");
  EXPECT_EQ(refusal_of(layers::concat(), {f32({1, 4, 2, 2}), f32({1, 5, 2, 3})}),
            "inputs have shapes [1, 4, 2, 2] and [1, 5, 2, 3], equal ones but for the channels are wanted");
  EXPECT_EQ(refusal_of(layers::concat(), {f32({1, 4}), f32({1, 4, 2, 2})}),
            "inputs have shapes [1, 4] and [1, 4, 2, 2], equal ones but for the channels are wanted");
  EXPECT_EQ(refusal_of(layers::concat(), {f32({4}), f32({4})}), "input has shape [4], two axes or more are wanted");
  for (const auto& op : {layers::relu(), layers::dropout(0.5F), layers::flatten()})
    EXPECT_EQ(refusal_of(op, {{dtype::u8, {1, 4}}}), "input is U8, F32 is wanted") << op->kind();
}

TEST(LayerRefusals, NameTheOptionOfTheOtherLayers) {
  EXPECT_EQ(refusal_of([] { layers::linear({.out_features = 3}); }), "linear: in_features is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::linear({.in_features = 3}); }), "linear: out_features is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::batch_norm2d(0); }), "batch_norm2d: channels is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::batch_norm2d(1, {.epsilon = 0}); }),
            "batch_norm2d: epsilon is 0, more than 0 is wanted");
  EXPECT_EQ(refusal_of([] { layers::batch_norm2d(1, {.momentum = 1.5F}); }),
            "batch_norm2d: momentum is 1.5, 0 to 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::pool2d({.stride = {0, 1}}); }), "pool2d: stride is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::pool2d({.kernel = {2, -1}}); }), "pool2d: kernel is -1, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] {
              layers::pool2d({.kernel = {3, 3}, .padding = {0, 2}});
            }),
            "pool2d: padding 2 is more than half of kernel 3");
  EXPECT_EQ(refusal_of([] {
              layers::adaptive_average_pool2d({1, 0});
            }),
            "adaptive_average_pool2d: output is 0, at least 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::dropout(1); }), "dropout: rate is 1, at least 0 and less than 1 is wanted");
  EXPECT_EQ(refusal_of([] { layers::dropout(-0.1F); }), "dropout: rate is -0.1, at least 0 and less than 1 is wanted");
}

TEST(LayerParameters, StartAsPyTorchStartsThem) {
  const auto of_conv =
      conv({.in_channels = 6, .out_channels = 4, .kernel = {3, 5}, .args = {.groups = 2}})->parameters({});
  ASSERT_EQ(of_conv.size(), 2U);
  EXPECT_EQ(of_conv[0].name, "weight");
  EXPECT_EQ(of_conv[0].dims, (shape{4, 3, 3, 5}));
  EXPECT_FALSE(of_conv[0].norm_or_bias);
  EXPECT_EQ(of_conv[1].name, "bias");
  EXPECT_EQ(of_conv[1].dims, shape{4});
  EXPECT_TRUE(of_conv[1].norm_or_bias);
  for (const parameter_spec& spec : of_conv) {
    EXPECT_EQ(spec.init.kind, initializer_kind::uniform);
    EXPECT_FLOAT_EQ(spec.init.value, 1 / std::sqrt(45.0F));
  }
  const auto of_linear = layers::linear({.in_features = 16, .out_features = 4})->parameters({});
  ASSERT_EQ(of_linear.size(), 2U);
  EXPECT_EQ(of_linear[0].dims, (shape{4, 16}));
  EXPECT_FLOAT_EQ(of_linear[1].init.value, 0.25F);
  const auto of_norm = layers::batch_norm2d(5)->parameters({});
  ASSERT_EQ(of_norm.size(), 2U);
  EXPECT_EQ(of_norm[0].init.value, 1);
  EXPECT_EQ(of_norm[1].init.value, 0);
  EXPECT_TRUE(of_norm[0].norm_or_bias && of_norm[1].norm_or_bias);
}

TEST(LayerParameters, TakeTheInitialisersGiven) {
  const auto specs = conv({.in_channels = 1,
                           .out_channels = 1,
                           .weight_init = initializer{initializer_kind::normal, 0.5F},
                           .bias_init = initializer{initializer_kind::constant, 2}})
                         ->parameters({});
  EXPECT_EQ(specs[0].init.kind, initializer_kind::normal);
  EXPECT_EQ(specs[0].init.value, 0.5F);
  EXPECT_EQ(specs[1].init.kind, initializer_kind::constant);
  EXPECT_EQ(specs[1].init.value, 2);
  EXPECT_EQ(conv({.in_channels = 1, .out_channels = 1, .bias = false})->parameters({}).size(), 1U);
}

TEST(LayerStates, AreThoseOfBatchNormAlone) {
  const auto states = layers::batch_norm2d(5)->states({});
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].name, "running_mean");
  EXPECT_EQ(states[1].name, "running_var");
  EXPECT_EQ(states[1].initial, 1);
  EXPECT_EQ(states[2].name, "num_batches_tracked");
  EXPECT_EQ(states[2].type, dtype::i64);
  EXPECT_EQ(states[2].dims, shape{});
  EXPECT_TRUE(layers::relu()->states({}).empty());
}

TEST(LayerNeeds, BatchNormWantsTwoValuesAChannelInTraining) {
  const auto bn = layers::batch_norm2d(4);
  const auto need = [&](shape dims) {
    const std::vector<tensor_spec> inputs{{dtype::f32, std::move(dims)}};
    return bn->least_training_samples(inputs);
  };
  EXPECT_EQ(need({1, 4, 1, 1}), 2);
  EXPECT_EQ(need({1, 4, 2, 1}), 1);
  const std::vector<tensor_spec> image{{dtype::f32, {1, 4, 1, 1}}};
  EXPECT_EQ(layers::relu()->least_training_samples(image), 1);
}

TEST(LayerFlops, CountAMultiplyAddAsTwo) {
  const std::vector<tensor_spec> images{f32({2, 4, 5, 5})};
  EXPECT_EQ(conv({.in_channels = 4, .out_channels = 6, .kernel = {3, 3}, .args = {.groups = 2}})->forward_flops(images),
            2.0 * 2 * 6 * 3 * 3 * 2 * 9);
  const std::vector<tensor_spec> rows{f32({3, 7})};
  EXPECT_EQ(layers::linear({.in_features = 7, .out_features = 5})->forward_flops(rows), 2.0 * 3 * 7 * 5);
  EXPECT_EQ(layers::relu()->forward_flops(images), 0);
}

TEST(LayerFusion, ALayerTakesInAReluBehindItOnce) {
  for (const auto& op :
       {conv({.in_channels = 1, .out_channels = 1}), layers::linear({.in_features = 1, .out_features = 1}),
        layers::batch_norm2d(1), layers::add()}) {
    const auto fused = op->try_fuse(*layers::relu());
    ASSERT_NE(fused, nullptr) << op->kind();
    EXPECT_EQ(fused->kind(), std::string(op->kind()) + "+relu");
    EXPECT_EQ(fused->try_fuse(*layers::relu()), nullptr) << op->kind();
    EXPECT_EQ(op->try_fuse(*layers::dropout(0)), nullptr) << op->kind();
    EXPECT_FALSE(layers::is_relu(*fused));
  }
  for (const auto& op : {layers::pool2d({}), layers::flatten(), layers::concat(), layers::relu(), layers::dropout(0)})
    EXPECT_EQ(op->try_fuse(*layers::relu()), nullptr) << op->kind();
  EXPECT_TRUE(layers::is_relu(*layers::relu()));
}

TEST(LayerBackward, GivesOnlyTheGradientsThatAreWanted) {
  const auto on = reference_stream();
  layer_call call{.op = layers::add(),
                  .inputs = {{{1, 2}, {1, 2}}, {{1, 2}, {3, 4}}},
                  .output_gradients = {{{1, 2}, {5, 6}}},
                  .need_input_gradient = {false, true}};
  auto found = run_layer(*on, call);
  ASSERT_EQ(found.input_gradients.size(), 2U);
  EXPECT_TRUE(found.input_gradients[0].values.empty());
  EXPECT_EQ(found.input_gradients[1].values, (std::vector<float>{5, 6}));

  call = {.op = layers::linear({.in_features = 2, .out_features = 1}),
          .inputs = {{{1, 2}, {1, 2}}},
          .weights = {{{1, 2}, {3, 4}}, {{1}, {0}}},
          .output_gradients = {{{1, 1}, {1}}},
          .need_input_gradient = {false}};
  found = run_layer(*on, call);
  EXPECT_TRUE(found.input_gradients.at(0).values.empty());
  EXPECT_EQ(found.weight_gradients.at(0).values, (std::vector<float>{1, 2}));
  call.need_input_gradient = {true};
  call.need_weight_gradient = false;
  found = run_layer(*on, call);
  EXPECT_EQ(found.input_gradients.at(0).values, (std::vector<float>{3, 4}));
  ASSERT_EQ(found.weight_gradients.size(), 2U);
  EXPECT_TRUE(found.weight_gradients[0].values.empty() && found.weight_gradients[1].values.empty());
}

TEST(LayerBackward, OfAddHandsOneGradientToBothInputs) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    std::vector<tensor> inputs{to_device(ops, {{1, 2}, {1, 2}}), to_device(ops, {{1, 2}, {3, 4}})};
    run_context context{.ops = ops};
    const auto op = layers::add();
    const forward_result forward = op->forward(context, inputs, {});
    EXPECT_TRUE(forward.saved.empty());
    std::vector<tensor> gradients{to_device(ops, {{1, 2}, {5, 6}})};
    const void* bytes = gradients[0].raw();
    const backward_result backward = op->backward(context, gradients, {}, forward.saved);
    EXPECT_EQ(backward.input_gradients.at(0).raw(), bytes);
    EXPECT_EQ(backward.input_gradients.at(1).raw(), bytes);
  });
}

TEST(LayerForward, KeepsNothingInEvaluation) {
  const auto on = reference_stream();
  const std::vector<host_tensor> images{random_tensor({2, 2, 4, 4}, 1)};
  for (const auto& op : {layers::relu(), layers::pool2d({}), layers::pool2d({.kind = pool_kind::average}),
                         layers::adaptive_average_pool2d({1, 1}), layers::flatten(), layers::dropout(0.5F)})
    EXPECT_EQ(run_layer(*on, {.op = op, .inputs = images, .mode = phase::evaluation}).saved, 0U) << op->kind();
}

TEST(LayerForward, KeepsNoBytesOfShapesAlone) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    std::vector<tensor> inputs{to_device(ops, random_tensor({2, 3, 4, 5}, 1))};
    run_context context{.ops = ops};
    const forward_result forward = layers::adaptive_average_pool2d({1, 1})->forward(context, inputs, {});
    ASSERT_EQ(forward.saved.size(), 1U);
    EXPECT_EQ(forward.saved[0].dims(), (shape{2, 3, 4, 5}));
    EXPECT_EQ(forward.saved[0].bytes(), 0U);
  });
}

TEST(Dropout, IsTheIdentityInEvaluationAndAtRateZero) {
  const auto on = reference_stream();
  const std::vector<host_tensor> images{random_tensor({2, 3, 4, 4}, 1)};
  expect_same(run_layer(*on, {.op = layers::dropout(0.5F), .inputs = images, .mode = phase::evaluation}).outputs,
              images, "evaluation");
  expect_same(run_layer(*on, {.op = layers::dropout(0), .inputs = images}).outputs, images, "rate zero");
}

TEST(Dropout, DropsTheRateAndScalesTheRest) {
  const auto on = reference_stream();
  const host_tensor ones{{100, 200}, std::vector<float>(20000, 1.0F)};
  const auto found = run_layer(*on, {.op = layers::dropout(0.25F), .inputs = {ones}, .output_gradients = {ones}});
  const auto& values = found.outputs[0].values;
  const auto dropped = std::count(values.begin(), values.end(), 0.0F);
  EXPECT_NEAR(static_cast<double>(dropped), 5000, 250); // four deviations
  EXPECT_EQ(std::count(values.begin(), values.end(), 1 / 0.75F), 20000 - dropped);
  expect_same(found.input_gradients, found.outputs, "the backward has the forward's mask");
}

TEST(Dropout, DependsOnEveryPartOfItsKeyAndOnNothingElse) {
  const auto on = reference_stream();
  const auto mask = [&](random_key key) {
    return run_layer(
               *on, {.op = layers::dropout(0.5F), .inputs = {{{1, 256}, std::vector<float>(256, 1.0F)}}, .random = key})
        .outputs[0]
        .values;
  };
  const random_key key{.seed = 1, .layer = 2, .minibatch = 3, .microbatch = 4};
  const auto first = mask(key);
  EXPECT_EQ(mask(key), first);
  for (const random_key& other :
       {random_key{9, 2, 3, 4}, random_key{1, 9, 3, 4}, random_key{1, 2, 9, 4}, random_key{1, 2, 3, 9}})
    EXPECT_NE(mask(other), first);
}

} // namespace

} // namespace penstock::testing
