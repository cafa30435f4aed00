// The oneDNN backend computes what the plain loops do, on odd shapes too.
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
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
    const tensor w = ops.reorder(weight, ops.get<convolution_ops>().conv2d_weight_format(c.args, c.x, c.weight),
                                 memory_use::weights);
    const tensor y = ops.get<convolution_ops>().conv2d_forward(c.args, source, w, bias, c.relu);
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

class Linear : public TwoBackends, public ::testing::WithParamInterface<std::tuple<shape, std::int64_t, bool, bool>> {};

TEST_P(Linear, AgreesWithThePlainLoops) {
  const auto& [dims, outputs, has_bias, relu] = GetParam();
  const shape weight_dims{outputs, dims[1]};
  const tensor x = random(dims), weight = random(weight_dims), bias = has_bias ? random({outputs}) : tensor{};
  const tensor dy = random({dims[0], outputs});
  expect_agreement([&, &in = dims, with_bias = has_bias, fused = relu](backend& ops) {
    const tensor w =
        ops.reorder(weight, ops.get<linear_ops>().linear_weight_format(in, weight_dims), memory_use::weights);
    const tensor y = ops.get<linear_ops>().linear_forward(x, w, bias, fused);
    const auto g = ops.get<linear_ops>().linear_backward(x, w, with_bias, fused ? y : tensor{}, fused,
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

class BatchNorm : public TwoBackends, public ::testing::WithParamInterface<std::tuple<shape, bool>> {};

TEST_P(BatchNorm, AgreesWithThePlainLoops) {
  const auto& [dims, relu] = GetParam();
  const std::int64_t channels = dims[1];
  const tensor x = random(dims, -1.0F, 3.0F), scale = random({channels}, 0.5F, 2.0F), shift = random({channels});
  const tensor mean = random({channels}), variance = random({channels}, 0.2F, 2.0F), dy = random(dims);
  expect_agreement(
      [&, fused = relu](backend& ops) {
        const batch_norm_args args;
        const tensor source = activation(ops, x);
        const auto result = ops.get<normalisation_ops>().batch_norm2d_forward(args, source, scale, shift, fused);
        const auto g = ops.get<normalisation_ops>().batch_norm2d_backward(args, source, scale, result, fused,
                                                                          activation(ops, dy), true);
        const tensor evaluated =
            ops.get<normalisation_ops>().batch_norm2d_inference(args, source, scale, shift, mean, variance, fused);
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
  expect_agreement([&](backend& ops) {
    const tensor source = activation(ops, x);
    const auto result = ops.get<normalisation_ops>().batch_norm2d_forward({}, source, scale, shift, false);
    const auto g =
        ops.get<normalisation_ops>().batch_norm2d_backward({}, source, scale, result, false, activation(ops, dy), true);
    expect_same_bits(values_of(ops, result.y), values_of(ops, shift), "y");
    return std::vector<tensor>{result.y, result.variance, g.input, g.weight, g.bias};
  });
}

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

TEST_F(TwoBackends, ElementwiseOperationsAgreeWithThePlainLoops) {
  for (const shape& dims : {shape{2, 20, 5, 3}, shape{3, 4, 2, 2}, shape{7, 33}, shape{8, 64, 28, 28}}) {
    const tensor a = random(dims), b = random(dims);
    expect_agreement([&](backend& ops) {
      tensor filled = ops.allocate_activation(dims), sum = activation(ops, a);
      ops.fill(filled, 2.5F);
      ops.get<elementwise_ops>().accumulate(sum, activation(ops, b));
      const tensor positive = ops.get<elementwise_ops>().relu_forward(activation(ops, a));
      return std::vector<tensor>{filled,
                                 sum,
                                 ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), false),
                                 ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), true),
                                 positive,
                                 ops.get<elementwise_ops>().relu_backward(positive, activation(ops, b))};
    });
  }
}

TEST_F(TwoBackends, DropoutKeepsTheSameElementsWhateverTheLayout) {
  const random_key key{.seed = 7, .layer = 99, .minibatch = 3, .microbatch = 1};
  for (const shape& dims : {shape{2, 20, 5, 3}, shape{4, 1000}, shape{8, 64, 28, 28}}) {
    const tensor x = random(dims);
    for (const float p : {0.0F, 0.3F, 0.5F, 1.0F})
      expect_agreement(
          [&](backend& ops) {
            return std::vector<tensor>{ops.get<elementwise_ops>().dropout(key, p, activation(ops, x))};
          },
          0);
  }
}

TEST_F(TwoBackends, DropoutDropsTheShareAskedForAndDependsOnEveryPartOfTheKey) {
  const tensor ones = random({1, 100000}, 1.0F, 1.0F);
  const random_key keys[] = {{1, 2, 3, 4}, {2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}};
  fast->run([&](backend& ops) {
    std::vector<std::vector<float>> masks;
    for (const auto& key : keys)
      masks.push_back(values_of(ops, ops.get<elementwise_ops>().dropout(key, 0.4F, activation(ops, ones))));
    for (std::size_t i = 0; i < masks.size(); ++i) {
      std::int64_t kept = 0, both = 0;
      for (std::size_t e = 0; e < masks[i].size(); ++e) {
        kept += masks[i][e] != 0.0F;
        both += masks[i][e] != 0.0F && masks[0][e] != 0.0F;
      }
      EXPECT_NEAR(static_cast<double>(kept), 60000, 5 * 155); // five standard deviations
      const double wanted = i == 0 ? 60000 : 36000;           // more or fewer: the masks are related
      EXPECT_NEAR(static_cast<double>(both), wanted, 5 * 155) << "masks " << i << " and 0";
    }
  });
}

TEST_F(TwoBackends, FlattenConcatAndSplitOnlyMoveElements) {
  const tensor x = random({2, 20, 3, 5});
  const std::vector<std::vector<std::int64_t>> lists{{16, 32, 16}, {3, 20, 1}, {2, 1}, {16, 3}};
  expect_agreement(
      [&](backend& ops) {
        const tensor flat = ops.to_plain(activation(ops, x)).reshaped({2, 300});
        EXPECT_TRUE(flat.is_plain());
        return std::vector<tensor>{
            flat, ops.reorder(flat.reshaped(x.dims()), ops.activation_format(x.dims()), memory_use::scratch)};
      },
      0);
  for (const auto& channels : lists) {
    std::vector<tensor> inputs;
    for (const auto c : channels)
      inputs.push_back(random({2, c, 3, 5}));
    expect_agreement(
        [&](backend& ops) {
          std::vector<tensor> parts;
          for (const auto& i : inputs)
            parts.push_back(activation(ops, i));
          const tensor whole = ops.get<elementwise_ops>().concat(parts);
          auto results = ops.get<elementwise_ops>().split(whole, channels);
          for (const auto& r : results)
            EXPECT_TRUE(same_format(r.format(), ops.activation_format(r.dims())));
          results.push_back(whole);
          return results;
        },
        0);
  }
}

TEST_F(TwoBackends, SoftmaxCrossEntropyAgreesWithThePlainLoops) {
  tensor logits = random({9, 13}, -20.0F, 20.0F);
  logits.data<float>()[5] = logits.data<float>()[3]; // a tie
  tensor labels = tensor::allocate(machine->memory(), dtype::i64, {9}, memory_use::scratch);
  for (std::int64_t i = 0; i < 9; ++i)
    labels.data<std::int64_t>()[i] = (i * 5) % 13;
  for (const float smoothing : {0.0F, 0.1F}) {
    loss_result found, wanted;
    fast->run([&](backend& ops) { found = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing); });
    plain->run([&](backend& ops) { wanted = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing); });
    EXPECT_NEAR(found.loss_sum, wanted.loss_sum, 1e-9 * wanted.loss_sum);
    EXPECT_EQ(found.correct_top1, wanted.correct_top1);
    EXPECT_EQ(found.correct_top5, wanted.correct_top5);
    expect_agreement([&](backend& ops) {
      const auto loss = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing);
      return std::vector<tensor>{loss.probabilities, ops.get<loss_ops>().softmax_cross_entropy_backward(
                                                         loss.probabilities, labels, smoothing, 0.125F)};
    });
  }
  labels.data<std::int64_t>()[4] = 13;
  EXPECT_THROW(fast->run([&](backend& ops) { ops.get<loss_ops>().softmax_cross_entropy(logits, labels, 0); }), error);
}

TEST_F(TwoBackends, OptimizerStepsAgreeWithThePlainLoopsInPlaceAndNot) {
  const shape dims{33, 20, 3, 3};
  const tensor weight = random(dims), gradient = random(dims), first = random(dims), second = random(dims, 0.0F, 1.0F);
  for (const bool in_place : {false, true})
    expect_agreement(
        [&](backend& ops) {
          const auto format = ops.get<convolution_ops>().conv2d_weight_format({}, {8, 20, 9, 9}, dims);
          const auto stored = [&](const tensor& t) {
            tensor copy = ops.allocate(dtype::f32, dims, memory_use::weights);
            std::memcpy(copy.raw(), t.raw(), t.bytes());
            return ops.reorder(copy, format, memory_use::weights);
          };
          std::vector<tensor> results;
          for (const sgd_args& args :
               {sgd_args{.learning_rate = 0.1F},
                sgd_args{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F},
                sgd_args{.learning_rate = 0.1F, .momentum = 0.9F, .nesterov = true, .gradient_scale = 0.5F}}) {
            const tensor w = stored(weight);
            tensor momentum = args.momentum == 0 ? tensor{} : stored(first);
            tensor next = in_place ? w : ops.allocate(dtype::f32, dims, memory_use::weights, format);
            ops.get<optimizer_ops>().sgd_step(args, w, stored(gradient), momentum, next);
            results.insert(results.end(), {next, momentum});
          }
          const tensor w = stored(weight);
          tensor m = stored(first), v = stored(second);
          tensor next = in_place ? w : ops.allocate(dtype::f32, dims, memory_use::weights, format);
          ops.get<optimizer_ops>().adamw_step({.gradient_scale = 0.5F, .step = 3}, w, stored(gradient), m, v, next);
          results.insert(results.end(), {next, m, v});
          return results;
        },
        1e-6);
}

TEST_F(TwoBackends, SumOfSquaresIsInDoubleAndTheSameForAnyThreadCount) {
  const tensor x = random({3, 123457});
  double exact = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i)
    exact += std::pow(static_cast<double>(x.data<float>()[i]), 2);
  std::vector<double> sums;
  for (const int count : {1, 2, 3}) {
    const auto one = machine->create_stream({.name = "sum", .threads = count});
    one->run([&](backend& ops) { sums.push_back(ops.get<optimizer_ops>().sum_of_squares(x)); });
  }
  EXPECT_NEAR(sums[0], exact, 1e-10 * exact);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

} // namespace
} // namespace penstock
