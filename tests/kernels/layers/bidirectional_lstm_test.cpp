// Both directions beyond what PyTorch's fixtures say (tests/kernels/backend_suite/recurrent_test.cpp).
#include "kernels/check.hpp"
#include "kernels/layers/bidirectional_lstm.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

layer_call call_of(shape x, std::vector<float> lengths, std::int64_t hidden, unsigned seed) {
  const auto rows = static_cast<std::int64_t>(lengths.size());
  auto call = random_call(layers::bidirectional_lstm(hidden),
                          {random_tensor(std::move(x), seed), {{rows}, std::move(lengths), dtype::i64}}, seed + 1);
  for (auto& w : call.weights)
    for (float& value : w.values)
      value *= 0.3F;
  return call;
}

TEST(BidirectionalLstm, KeepsWhatEveryLayerPromises) {
  expect_backends_agree(call_of({3, 5, 4}, {5, 1, 3}, 7, 1));
  expect_backends_agree(call_of({7, 6, 37}, {1, 2, 6, 4, 5, 3, 0}, 41, 20));
}

TEST(BidirectionalLstm, GradientsAreSlopes) {
  expect_gradients_are_slopes(call_of({2, 3, 2}, {3, 2}, 3, 1));
}

TEST(BidirectionalLstm, HasTheSameBitsForAnyNumberOfThreads) {
  const auto call = call_of({6, 7, 50}, {7, 6, 5, 4, 3, 2}, 67, 5);
  const auto backends = backends_under_test();
  const auto one = run_layer(*open_stream(backends[1]), call), two = run_layer(*open_stream(backends[2]), call);
  expect_same(two.outputs, one.outputs, "output");
  expect_same(two.input_gradients, one.input_gradients, "input gradient");
  expect_same(two.weight_gradients, one.weight_gradients, "weight gradient");
}

TEST(BidirectionalLstm, MorePaddingChangesNothing) {
  const auto narrow = call_of({2, 4, 3}, {4, 2}, 5, 9);
  auto wide = call_of({2, 6, 3}, {4, 2}, 5, 9);
  wide.weights = narrow.weights;
  const auto copy_rows = [](const host_tensor& from, host_tensor& to) { // zeros behind
    std::fill(to.values.begin(), to.values.end(), 0.0F);
    const auto width = static_cast<std::size_t>(from.dims[2]);
    for (std::size_t row = 0; row < 2; ++row)
      std::copy_n(from.values.begin() + static_cast<std::ptrdiff_t>(row * 4 * width), 4 * width,
                  to.values.begin() + static_cast<std::ptrdiff_t>(row * 6 * width));
  };
  copy_rows(narrow.inputs[0], wide.inputs[0]);
  copy_rows(narrow.output_gradients[0], wide.output_gradients[0]);
  for (const auto& backend : backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const auto few = run_layer(*on, narrow), many = run_layer(*on, wide);
    auto wanted = many.outputs[0];
    copy_rows(few.outputs[0], wanted);
    expect_same({many.outputs[0]}, {wanted}, "output");
    expect_close(many.weight_gradients, few.weight_gradients, 1e-6, "weight gradient");
  }
}

TEST(BidirectionalLstm, SaysWhatItIs) {
  const std::vector<tensor_spec> inputs{{dtype::f32, {3, 5, 4}}, {dtype::i64, {3}}};
  const auto op = layers::bidirectional_lstm(6, {.bias_hh_init = initializer{initializer_kind::constant, 0}});
  std::vector<std::string> names;
  for (const auto& p : op->parameters(inputs))
    names.push_back(p.name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                                     "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"));
  EXPECT_EQ(op->parameters(inputs)[7].init.kind, initializer_kind::constant);
  EXPECT_EQ(op->infer(inputs)[0].dims, (shape{3, 5, 12}));
  EXPECT_EQ(op->forward_flops(inputs), 2 * 2.0 * 3 * 5 * 24 * 10);
  EXPECT_THAT(
      [&] {
        op->infer(std::vector<tensor_spec>{{dtype::f32, {3, 5, 4}}, {dtype::i64, {2}}});
      },
      ::testing::ThrowsMessage<usage_error>("lengths has shape [2], [3] is wanted"));
}

} // namespace
} // namespace penstock::testing
