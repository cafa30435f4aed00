// Normalisation on a device's library computes what the plain loops do, on odd shapes too.
#include "kernels/ops/normalisation_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

namespace penstock {
namespace {

class BatchNorm : public TwoBackends, public ::testing::WithParamInterface<std::tuple<shape, bool>> {};

TEST_P(BatchNorm, AgreesWithThePlainLoops) {
  const auto& [dims, relu] = GetParam();
  const std::int64_t channels = dims[1];
  const tensor x = random(dims, -1.0F, 3.0F), scale = random({channels}, 0.5F, 2.0F), shift = random({channels});
  const tensor mean = random({channels}), variance = random({channels}, 0.2F, 2.0F), dy = random(dims);
  expect_agreement(
      [&, fused = relu](backend& ops) {
        const batch_norm_args args;
        auto& norm = ops.get<normalisation_ops>();
        const tensor source = activation(ops, x), gamma = plainly(ops, scale), beta = plainly(ops, shift);
        const auto result = norm.batch_norm2d_forward(args, source, gamma, beta, fused);
        const auto g = norm.batch_norm2d_backward(args, source, gamma, result, fused, activation(ops, dy), true);
        const tensor evaluated =
            norm.batch_norm2d_inference(args, source, gamma, beta, plainly(ops, mean), plainly(ops, variance), fused);
        return std::vector<tensor>{result.y, result.mean, result.variance, g.input, g.weight, g.bias, evaluated};
      },
      1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNorm,
                         ::testing::Combine(::testing::Values(shape{4, 16, 5, 7}, shape{2, 3, 8, 8}, shape{3, 20, 4, 4},
                                                              shape{8, 64, 14, 14}, shape{2, 6, 1, 3}),
                                            ::testing::Bool()));

TEST_F(TwoBackends, BatchNormOfOneValuePerChannelGivesTheShift) {
  const tensor x = random({1, 20, 1, 1}), scale = random({20}), shift = random({20}), dy = random({1, 20, 1, 1});
  fast->run([&](backend& ops) {
    const auto y = ops.get<normalisation_ops>().batch_norm2d_forward({}, activation(ops, x), scale, shift, false).y;
    expect_same_bits(values_of(ops, y), values_of(ops, shift), "y");
  });
  expect_agreement([&](backend& ops) {
    auto& norm = ops.get<normalisation_ops>();
    const tensor source = activation(ops, x), gamma = plainly(ops, scale);
    const auto result = norm.batch_norm2d_forward({}, source, gamma, plainly(ops, shift), false);
    const auto g = norm.batch_norm2d_backward({}, source, gamma, result, false, activation(ops, dy), true);
    return std::vector<tensor>{result.y, result.variance, g.input, g.weight, g.bias};
  });
}

} // namespace
} // namespace penstock
