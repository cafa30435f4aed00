// A backward in two parts: the bits of the whole one, and what it keeps in between.
#include "kernels/device.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/stream.hpp"
#include "tests/kernels/core/chained_stages.hpp"

#include <gmock/gmock.h>

namespace penstock {
namespace {

using namespace testing;

class SplitBackward : public ::testing::TestWithParam<bool> {
public:
  std::shared_ptr<device> machine = open_device({});
  std::unique_ptr<stream> work = machine->create_stream({.name = "split", .threads = 1, .reference = GetParam()});
};

TEST_P(SplitBackward, OfAWholeNetworkHasTheBitsOfOneInOnePieceHoweverLateTheWeightsPartComes) {
  const auto m = residual_network();
  work->run([&](backend& ops) {
    for (const auto& cuts : std::vector<std::vector<int>>{{}, {1, 4}, {3, 9, 13}}) {
      const auto whole = chained(m, cuts).train(ops, 3, 5);
      for (const int delay : {0, 1, 3, 5})
        expect_same_bits(chained(m, cuts).train(ops, 3, 5, delay), whole,
                         "delay " + std::to_string(delay) + ", cuts at " + ::testing::PrintToString(cuts));
    }
  });
}

TEST_P(SplitBackward, KeepsWhatTheWeightGradientsNeedAndNoMore) {
  using namespace layers;
  model_builder b("kept", {4, 5, 7});
  auto x = b.add("conv", conv2d({.in_channels = 4, .out_channels = 8, .kernel = {3, 3}, .args = {.padding = {1, 1}}}),
                 {b.input()});
  x = b.add("relu", relu(), {x});
  x = b.add("pool", pool2d({}), {x});
  x = b.add("flatten", flatten(), {x});
  const auto m = std::make_shared<const model>(
      b.build_inference(b.add("fc", linear({.in_features = 48, .out_features = 3}), {x})));
  const segment s(m, 0, 5);
  work->run([&](backend& ops) {
    const auto weights = drawn_weights(ops, s);
    segment_activations kept;
    s.forward(ops, {}, {random_activation(ops, {3, 4, 5, 7}, 1)}, weights, {}, &kept);
    const tensor activated = kept.saved[0].at(1); // the fused ReLU's result
    segment_weight_work left;
    s.backward_input(ops, {}, {random_activation(ops, {3, 3}, 2)}, weights, std::move(kept), left);
    EXPECT_TRUE(activated.is_unique()) << "its ReLU is undone in the input's part";
    ASSERT_EQ(left.layers.size(), 2U);
    EXPECT_EQ(left.layers[0].layer, 4);
    EXPECT_EQ(left.layers[1].layer, 0);
    std::vector<tensor> gradients(4);
    const tensor first_input = left.layers[1].kept.at(0);
    s.backward_weight(ops, {}, weights, std::move(left), gradients);
    EXPECT_TRUE(first_input.is_unique()) << "nothing is held once the weights' part is done";
    for (const auto& g : gradients)
      EXPECT_TRUE(g);
  });
}

TEST_P(SplitBackward, OfWhatGetsNoGradientLeavesNothing) {
  const auto m = residual_network();
  const segment s(m, 0, 2);
  work->run([&](backend& ops) {
    const auto weights = drawn_weights(ops, s);
    segment_activations kept;
    s.forward(ops, {}, {random_activation(ops, {1, 3, 6, 6}, 1)}, weights, {}, &kept);
    segment_weight_work left;
    s.backward_input(ops, {}, {tensor{}}, weights, std::move(kept), left);
    EXPECT_TRUE(left.layers.empty());
    std::vector<tensor> gradients(2);
    s.backward_weight(ops, {}, weights, std::move(left), gradients);
    EXPECT_FALSE(gradients[0]);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SplitBackward, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Reference" : "Library"; });

// -- a layer that knows nothing of two parts ---------------------------------------------

// y = w x with one weight; has `backward` alone, as a plug-in's layer may.
class whole_layer : public layer {
public:
  std::string_view kind() const override { return "whole"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{"weight", {1}, {initializer_kind::constant, 3.0F}}};
  }
  forward_result forward(run_context& c, std::span<tensor> in, std::span<const tensor> w) const override {
    auto y = c.ops.allocate_activation(in[0].dims());
    for (std::int64_t i = 0; i < y.elements(); ++i)
      y.data<float>()[i] = w[0].data<float>()[0] * in[0].data<float>()[i];
    return {{y}, {in[0]}};
  }
  backward_result backward(run_context& c, std::span<tensor> dy, std::span<const tensor> w,
                           std::span<const tensor> saved) const override {
    ++calls;
    auto dx = c.ops.allocate_activation(dy[0].dims());
    auto dw = c.ops.allocate(dtype::f32, {1}, memory_use::gradients);
    float sum = 0;
    for (std::int64_t i = 0; i < dx.elements(); ++i) {
      dx.data<float>()[i] = w[0].data<float>()[0] * dy[0].data<float>()[i];
      sum += dy[0].data<float>()[i] * saved[0].data<float>()[i];
    }
    dw.data<float>()[0] = sum;
    return {{dx}, {dw}};
  }
  mutable int calls = 0;
};

TEST(WholeBackward, OfALayerThatHasNoOtherRunsInTheInputsPart) {
  const auto whole = std::make_shared<whole_layer>();
  model_builder b("net", {5});
  const auto first = b.add("fc", layers::linear({.in_features = 5, .out_features = 5}), {b.input()});
  const auto m = std::make_shared<const model>(b.build_inference(
      b.add("out", layers::linear({.in_features = 5, .out_features = 3}), {b.add("whole", whole, {first})})));
  const auto machine = open_device({});
  const auto work = machine->create_stream({.name = "split", .reference = true});
  work->run([&](backend& ops) {
    const auto in_one_piece = chained(m, {1, 2}).train(ops, 3, 4);
    expect_same_bits(chained(m, {1, 2}).train(ops, 3, 4, 2), in_one_piece, "split");
    EXPECT_EQ(whole->calls, 8) << "once a micro-batch each time";
  });
}

} // namespace
} // namespace penstock
