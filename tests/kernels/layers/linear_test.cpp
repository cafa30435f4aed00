// The linear layer on tensors of any rank.
#include "kernels/check.hpp"
#include "kernels/layers/linear.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

TEST(Linear, TreatsEveryRowOfAnyRankAsItTreatsThoseOfTwoAxes) {
  const auto op = layers::linear({.in_features = 33, .out_features = 17});
  for (const shape& rows : {shape{3, 5}, shape{1, 1}, shape{2, 19, 7}, shape{2, 1, 2, 3}}) {
    shape x = rows;
    x.push_back(33);
    const auto call = random_call(op, std::vector<shape>{x}, 3);
    expect_backends_agree(call);
    auto flat = call;
    flat.inputs[0].dims = {element_count(rows), 33};
    flat.output_gradients[0].dims = {element_count(rows), 17};
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(backend.name + to_string(x));
      const auto on = open_stream(backend);
      const auto found = run_layer(*on, call), wanted = run_layer(*on, flat);
      EXPECT_EQ(found.outputs[0].dims.size(), x.size());
      EXPECT_LE(relative_distance(found.outputs[0].values, wanted.outputs[0].values), 2e-6);
      EXPECT_EQ(found.input_gradients[0].dims, x);
      EXPECT_LE(relative_distance(found.input_gradients[0].values, wanted.input_gradients[0].values), 2e-6);
      expect_close(found.weight_gradients, wanted.weight_gradients, 2e-6, "weight gradient");
    }
  }
}

TEST(Linear, KeepsNoExtentButTheFeatures) {
  const auto op = layers::linear({.in_features = 3, .out_features = 5});
  const auto infer = [&](const shape& dims) { return op->infer(std::vector<tensor_spec>{{dtype::f32, dims}})[0].dims; };
  EXPECT_EQ(infer({2, 7, 3}), (shape{2, 7, 5}));
  EXPECT_EQ(op->forward_flops(std::vector<tensor_spec>{{dtype::f32, {2, 7, 3}}}), 2.0 * 2 * 7 * 3 * 5);
  EXPECT_THAT([&] { infer({3}); },
              ::testing::ThrowsMessage<usage_error>("input has shape [3], [N, ..., features] is wanted"));
  EXPECT_THAT([&] { infer({2, 7, 4}); }, ::testing::ThrowsMessage<usage_error>("input has 4 features, 3 are wanted"));
}

} // namespace
} // namespace penstock::testing
