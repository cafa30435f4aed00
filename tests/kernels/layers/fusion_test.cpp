// Fusion asked for by layers that the program does not know: what a segment puts in the place of several.
#include "kernels/layers/linear.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/segment.hpp"
#include "tests/kernels/backend_suite/layer_harness.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

// x * factor; takes in others of its kind behind it, as long as it is told to. Counts the calls of its forward.
class scale_layer final : public layer {
public:
  scale_layer(float factor, bool fuses, std::shared_ptr<int> calls)
      : factor_(factor), fuses_(fuses), calls_(std::move(calls)) {}
  std::string_view kind() const override { return "scale"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override { return {inputs[0]}; }
  layer_ptr try_fuse(const layer& next) const override {
    const auto* other = dynamic_cast<const scale_layer*>(&next);
    if (!fuses_ || other == nullptr) return nullptr;
    return std::make_shared<scale_layer>(factor_ * other->factor_, other->fuses_, calls_);
  }
  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    ++*calls_;
    return {{scaled(context, inputs[0])}, {}};
  }
  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {{scaled(context, output_gradients[0])}, {}};
  }
  bool keeps_finite() const override { return true; }

private:
  tensor scaled(run_context& context, const tensor& x) const {
    const auto values = to_host(context.ops, x);
    host_tensor result{values.dims, {}};
    for (const float v : values.values)
      result.values.push_back(v * factor_);
    return to_device(context.ops, result);
  }

  float factor_;
  bool fuses_;
  std::shared_ptr<int> calls_;
};

class Fusion : public ::testing::Test {
public:
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  layer_ptr scale(float factor, bool fuses = true) { return std::make_shared<scale_layer>(factor, fuses, calls); }

  // Runs a segment forward on one row of ones and backward with the output as gradient; the calls seen, by layer.
  std::vector<int> run(const segment& s, std::vector<float>* out = nullptr) {
    std::vector<int> seen;
    reference_stream()->run([&](backend& ops) {
      segment_call call;
      call.observe = [&](const layer_observation& one) { seen.push_back(one.layer); };
      std::vector<tensor> weights, gradients(s.parameters().size());
      for (const auto& p : s.parameters())
        weights.push_back(to_device(
            ops, {p.spec.dims, std::vector<float>(static_cast<std::size_t>(element_count(p.spec.dims)), 1.0F)}));
      segment_activations keep;
      auto outputs = s.forward(ops, call, {to_device(ops, {{1, 2}, {1, 1}})}, weights, {}, &keep);
      if (out != nullptr) *out = to_host(ops, outputs[0]).values;
      s.backward(ops, call, std::move(outputs), weights, std::move(keep), gradients);
    });
    return seen;
  }
};

TEST_F(Fusion, TakesInAWholeChainAndReportsItsFirstLayer) {
  model_builder b("chain", {2});
  auto x = b.add("fc", layers::linear({.in_features = 2, .out_features = 2, .bias = false}), {b.input()});
  for (const char* name : {"a", "b", "c"})
    x = b.add(name, scale(2), {x});
  const auto net = std::make_shared<const model>(b.build_inference(x));
  const segment s(net, 0, 4);
  std::vector<float> out;
  EXPECT_EQ(run(s, &out), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(out, (std::vector<float>{16, 16}));
  EXPECT_EQ(*calls, 1);
  EXPECT_FALSE(s.is_absorbed(0) || s.is_absorbed(1));
  EXPECT_TRUE(s.is_absorbed(2) && s.is_absorbed(3));
}

TEST_F(Fusion, EndsAtTheCutAndWhereALayerTakesInNoMore) {
  model_builder b("chain", {2});
  auto x = b.input();
  x = b.add("a", scale(2), {x});
  x = b.add("b", scale(2, false), {x});
  x = b.add("c", scale(2), {x});
  x = b.add("d", scale(2), {x});
  const auto net = std::make_shared<const model>(b.build_inference(x));
  const segment whole(net, 0, 4), front(net, 0, 1), back(net, 1, 4);
  EXPECT_TRUE(whole.is_absorbed(1) && whole.is_absorbed(3) && !whole.is_absorbed(2));
  EXPECT_FALSE(front.is_absorbed(0));
  EXPECT_TRUE(!back.is_absorbed(1) && !back.is_absorbed(2) && back.is_absorbed(3));
}

TEST_F(Fusion, LeavesWhatOthersReadAndWhatHasParameters) {
  model_builder b("fork", {2});
  const auto a = b.add("a", scale(2), {b.input()});
  const auto left = b.add("left", scale(3), {a});
  const auto fc = b.add("fc", layers::linear({.in_features = 2, .out_features = 2}), {left});
  b.add("right", scale(5), {a});
  const auto net = std::make_shared<const model>(b.build_inference(fc));
  const segment s(net, 0, 4);
  for (int l = 0; l < 4; ++l)
    EXPECT_FALSE(s.is_absorbed(l)) << l;
}

} // namespace
} // namespace penstock::testing
