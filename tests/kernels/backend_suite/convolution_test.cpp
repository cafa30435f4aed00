// Convolution and pooling on a device's library compute what the plain loops do, on odd shapes too.
#include "kernels/ops/convolution_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

namespace penstock {
namespace {

struct conv_case {
  shape x, weight;
  conv2d_args args;
  bool bias, relu;
};

class Convolution : public TwoBackends, public ::testing::WithParamInterface<conv_case> {};

TEST_P(Convolution, AgreesWithThePlainLoops) {
  const auto& c = GetParam();
  const tensor x = random(c.x), weight = random(c.weight), bias = c.bias ? random({c.weight[0]}) : tensor{};
  tensor dy;
  plain->run([&](backend& ops) { dy = ops.get<convolution_ops>().conv2d_forward(c.args, x, weight, bias, false); });
  dy = random(dy.dims());
  expect_agreement([&](backend& ops) {
    const tensor source = activation(ops, x);
    const tensor w =
        ops.reorder(plainly(ops, weight), ops.get<convolution_ops>().conv2d_weight_format(c.args, c.x, c.weight),
                    memory_use::weights);
    const tensor y = ops.get<convolution_ops>().conv2d_forward(c.args, source, w, plainly(ops, bias), c.relu);
    const auto g = ops.get<convolution_ops>().conv2d_backward(c.args, source, w, c.bias, c.relu ? y : tensor{}, c.relu,
                                                              activation(ops, dy), true, true);
    EXPECT_TRUE(same_format(y.format(), ops.activation_format(y.dims())));
    EXPECT_TRUE(same_format(g.input.format(), source.format()));
    EXPECT_TRUE(same_format(g.weight.format(), w.format()));
    return std::vector<tensor>{y, g.input, g.weight, g.bias};
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Convolution,
    ::testing::Values(conv_case{{2, 3, 17, 19}, {64, 3, 7, 7}, {{2, 2}, {3, 3}}, false, true},
                      conv_case{{2, 1, 28, 28}, {6, 1, 5, 5}, {{1, 1}, {2, 2}}, true, true},
                      conv_case{{2, 6, 14, 14}, {16, 6, 5, 5}, {}, true, false},
                      conv_case{{3, 16, 9, 7}, {32, 16, 3, 3}, {{1, 1}, {1, 1}}, true, true},
                      conv_case{{1, 64, 8, 8}, {128, 64, 1, 1}, {{2, 2}, {0, 0}}, false, false},
                      conv_case{{5, 24, 5, 6}, {40, 24, 3, 2}, {{2, 1}, {1, 0}}, true, true},
                      conv_case{{2, 16, 11, 11}, {16, 16, 3, 3}, {{1, 1}, {2, 2}, {2, 2}}, true, false},
                      conv_case{{2, 32, 8, 8}, {32, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 32}, false, true},
                      conv_case{{2, 32, 8, 8}, {64, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 2}, true, true},
                      conv_case{{2, 12, 8, 8}, {9, 4, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 3}, true, true},
                      conv_case{{2, 3, 9, 9}, {4, 3, 3, 3}, {{1, 1}, {1, 1}}, true, true},
                      conv_case{{2, 7, 1, 1}, {5, 7, 1, 1}, {}, true, false},
                      conv_case{{8, 192, 7, 7}, {384, 192, 3, 3}, {{1, 1}, {1, 1}}, true, true}));

struct pool_case {
  shape x;
  pool2d_args args;
};

class Pooling : public TwoBackends, public ::testing::WithParamInterface<pool_case> {};

TEST_P(Pooling, AgreesWithThePlainLoops) {
  const auto& c = GetParam();
  const tensor x = random(c.x);
  tensor dy;
  plain->run([&](backend& ops) { dy = ops.get<convolution_ops>().pool2d_forward(c.args, x, false).y; });
  dy = random(dy.dims());
  expect_agreement([&](backend& ops) {
    const tensor source = activation(ops, x);
    const auto result = ops.get<convolution_ops>().pool2d_forward(c.args, source, true);
    const tensor evaluated = ops.get<convolution_ops>().pool2d_forward(c.args, source, false).y;
    const tensor dx = ops.get<convolution_ops>().pool2d_backward(c.args, c.x, result.workspace, activation(ops, dy));
    return std::vector<tensor>{result.y, evaluated, dx};
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Pooling,
    ::testing::Values(pool_case{{2, 16, 8, 8}, {}}, pool_case{{2, 6, 9, 7}, {pool_kind::max, {3, 3}, {2, 2}, {1, 1}}},
                      pool_case{{2, 20, 6, 7}, {pool_kind::max, {3, 2}, {2, 2}, {0, 0}, true}},
                      pool_case{{1, 3, 7, 7}, {pool_kind::max, {3, 3}, {2, 2}, {1, 1}, true}},
                      pool_case{{2, 20, 6, 7}, {pool_kind::average, {3, 2}, {2, 2}, {1, 1}, true, true}},
                      pool_case{{2, 20, 7, 6}, {pool_kind::average, {3, 3}, {2, 1}, {1, 0}, false, false}},
                      pool_case{{3, 2, 5, 5}, {pool_kind::average, {2, 2}, {2, 2}, {0, 0}, true, false}}));

TEST_F(TwoBackends, AdaptiveAveragePoolingAgreesWithThePlainLoops) {
  for (const shape& dims : {shape{2, 20, 7, 7}, shape{1, 3, 5, 8}, shape{2, 16, 2, 3}})
    for (const std::array<std::int64_t, 2> output : {std::array<std::int64_t, 2>{1, 1}, {7, 7}, {3, 2}}) {
      const tensor x = random(dims), dy = random({dims[0], dims[1], output[0], output[1]});
      expect_agreement([&](backend& ops) {
        return std::vector<tensor>{
            ops.get<convolution_ops>().adaptive_average_pool2d_forward(activation(ops, x), output),
            ops.get<convolution_ops>().adaptive_average_pool2d_backward(dims, activation(ops, dy))};
      });
    }
}

} // namespace
} // namespace penstock
