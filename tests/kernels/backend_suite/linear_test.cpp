// Linear algebra on a device's library computes what the plain loops do, on odd shapes too.
#include "kernels/ops/linear_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

namespace penstock {
namespace {

class Linear : public TwoBackends, public ::testing::WithParamInterface<std::tuple<shape, std::int64_t, bool, bool>> {};

TEST_P(Linear, AgreesWithThePlainLoops) {
  const auto& [dims, outputs, has_bias, relu] = GetParam();
  const shape weight_dims{outputs, dims[1]};
  const tensor x = random(dims), weight = random(weight_dims), bias = has_bias ? random({outputs}) : tensor{};
  const tensor dy = random({dims[0], outputs});
  expect_agreement([&, &in = dims, with_bias = has_bias, fused = relu](backend& ops) {
    const tensor source = plainly(ops, x);
    const tensor w = ops.reorder(plainly(ops, weight), ops.get<linear_ops>().linear_weight_format(in, weight_dims),
                                 memory_use::weights);
    const tensor y = ops.get<linear_ops>().linear_forward(source, w, plainly(ops, bias), fused);
    const auto g = ops.get<linear_ops>().linear_backward(source, w, with_bias, fused ? y : tensor{}, fused,
                                                         activation(ops, dy), true, true);
    EXPECT_TRUE(same_format(g.weight.format(), w.format()));
    return std::vector<tensor>{y, g.input, g.weight, g.bias};
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, Linear,
                         ::testing::Values(std::tuple{shape{8, 400}, std::int64_t{120}, true, true},
                                           std::tuple{shape{1, 84}, std::int64_t{10}, true, false},
                                           std::tuple{shape{3, 17}, std::int64_t{33}, false, true},
                                           std::tuple{shape{32, 512}, std::int64_t{1000}, true, false},
                                           std::tuple{shape{7, 1}, std::int64_t{1}, true, true}));

} // namespace
} // namespace penstock
