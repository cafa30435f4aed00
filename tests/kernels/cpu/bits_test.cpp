// What the oneDNN backend promises beyond being right: the same bits fused or apart, again and again, and no
// allocation.
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"
#include "tests/kernels/scalars.hpp"

#include <thread>

namespace penstock {
namespace {

using Bits = TwoBackends;

TEST_F(Bits, FusingReluIntoAConvolutionChangesNoBit) {
  for (const auto& [dims, groups] : {std::pair{shape{3, 3, 20, 20}, 1L},
                                     {shape{3, 16, 9, 9}, 1L},
                                     {shape{3, 20, 9, 9}, 1L},
                                     {shape{3, 20, 9, 9}, 4L},
                                     {shape{3, 40, 9, 9}, 40L}}) {
    const shape weight_dims{40, dims[1] / groups, 3, 3};
    const conv2d_args args{.padding = {1, 1}, .groups = groups};
    const tensor x = random(dims), weight = random(weight_dims), bias = random({40});
    const tensor dy = random({3, 40, dims[2], dims[3]});
    fast->run([&](backend& ops) {
      const tensor source = activation(ops, x);
      const tensor w = ops.reorder(weight, ops.get<convolution_ops>().conv2d_weight_format(args, x.dims(), weight_dims),
                                   memory_use::weights);
      const tensor y = ops.get<convolution_ops>().conv2d_forward(args, source, w, bias, true);
      const tensor apart = ops.get<elementwise_ops>().relu_forward(
          ops.get<convolution_ops>().conv2d_forward(args, source, w, bias, false));
      expect_same_bits(values_of(ops, y), values_of(ops, apart), "y");
      const auto fused =
          ops.get<convolution_ops>().conv2d_backward(args, source, w, true, y, true, activation(ops, dy), true, true);
      const auto separate = ops.get<convolution_ops>().conv2d_backward(
          args, source, w, true, {}, false, ops.get<elementwise_ops>().relu_backward(apart, activation(ops, dy)), true,
          true);
      expect_same_bits(values_of(ops, fused.input), values_of(ops, separate.input), "dx");
      expect_same_bits(values_of(ops, fused.weight), values_of(ops, separate.weight), "dw");
      expect_same_bits(values_of(ops, fused.bias), values_of(ops, separate.bias), "db");
    });
  }
}

TEST_F(Bits, FusingReluIntoBatchNormChangesNoBit) {
  for (const shape& dims : {shape{4, 32, 9, 7}, shape{4, 20, 5, 5}, shape{4, 3, 5, 5}, shape{8, 64, 28, 28}}) {
    const tensor x = random(dims), scale = random({dims[1]}), shift = random({dims[1]}), dy = random(dims);
    const tensor mean = random({dims[1]}), variance = random({dims[1]}, 0.5F, 1.0F);
    fast->run([&](backend& ops) {
      const tensor source = activation(ops, x);
      const auto fused = ops.get<normalisation_ops>().batch_norm2d_forward({}, source, scale, shift, true);
      const auto plain_norm = ops.get<normalisation_ops>().batch_norm2d_forward({}, source, scale, shift, false);
      const tensor y = ops.get<elementwise_ops>().relu_forward(plain_norm.y);
      expect_same_bits(values_of(ops, fused.y), values_of(ops, y), "y");
      const auto g =
          ops.get<normalisation_ops>().batch_norm2d_backward({}, source, scale, fused, true, activation(ops, dy), true);
      const auto apart = ops.get<normalisation_ops>().batch_norm2d_backward(
          {}, source, scale, plain_norm, false, ops.get<elementwise_ops>().relu_backward(y, activation(ops, dy)), true);
      expect_same_bits(values_of(ops, g.input), values_of(ops, apart.input), "dx");
      expect_same_bits(values_of(ops, g.weight), values_of(ops, apart.weight), "dscale");
      expect_same_bits(values_of(ops, g.bias), values_of(ops, apart.bias), "dshift");
      expect_same_bits(
          values_of(
              ops, ops.get<normalisation_ops>().batch_norm2d_inference({}, source, scale, shift, mean, variance, true)),
          values_of(ops, ops.get<elementwise_ops>().relu_forward(ops.get<normalisation_ops>().batch_norm2d_inference(
                             {}, source, scale, shift, mean, variance, false))),
          "evaluation");
    });
  }
}

TEST_F(Bits, FusingReluIntoLinearAndAddChangesNoBit) {
  const tensor x = random({9, 133}), weight = random({70, 133}), bias = random({70}), dy = random({9, 70});
  const tensor a = random({2, 20, 5, 5}), b = random({2, 20, 5, 5});
  fast->run([&](backend& ops) {
    const tensor w =
        ops.reorder(weight, ops.get<linear_ops>().linear_weight_format({9, 133}, {70, 133}), memory_use::weights);
    const tensor y = ops.get<linear_ops>().linear_forward(x, w, bias, true);
    const tensor apart =
        ops.get<elementwise_ops>().relu_forward(ops.get<linear_ops>().linear_forward(x, w, bias, false));
    expect_same_bits(values_of(ops, y), values_of(ops, apart), "y");
    const auto fused = ops.get<linear_ops>().linear_backward(x, w, true, y, true, activation(ops, dy), true, true);
    const auto separate = ops.get<linear_ops>().linear_backward(
        x, w, true, {}, false, ops.get<elementwise_ops>().relu_backward(y, activation(ops, dy)), true, true);
    expect_same_bits(values_of(ops, fused.input), values_of(ops, separate.input), "dx");
    expect_same_bits(values_of(ops, fused.weight), values_of(ops, separate.weight), "dw");
    expect_same_bits(values_of(ops, ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), true)),
                     values_of(ops, ops.get<elementwise_ops>().relu_forward(
                                        ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), false))),
                     "add");
  });
}

// A little of everything: forward, backward and update of conv, norm, pooling and linear.
class little_network {
public:
  little_network(TwoBackends& test)
      : x_(test.random({4, 3, 20, 20})), conv_(test.random({24, 3, 3, 3})), scale_(test.random({24})),
        shift_(test.random({24})), linear_(test.random({10, 2400})), bias_(test.random({10})),
        dy_(test.random({4, 10})) {}

  std::vector<std::vector<float>> step(backend& ops) const {
    const conv2d_args args{{1, 1}, {1, 1}};
    const tensor w = ops.reorder(conv_, ops.get<convolution_ops>().conv2d_weight_format(args, x_.dims(), conv_.dims()),
                                 memory_use::weights);
    const tensor lw = ops.reorder(linear_, ops.get<linear_ops>().linear_weight_format({4, 2400}, linear_.dims()),
                                  memory_use::weights);
    const tensor convolved = ops.get<convolution_ops>().conv2d_forward(args, x_, w, {}, false);
    const auto norm = ops.get<normalisation_ops>().batch_norm2d_forward({}, convolved, scale_, shift_, true);
    const auto pooled = ops.get<convolution_ops>().pool2d_forward({}, norm.y, true);
    const tensor flat = ops.to_plain(pooled.y).reshaped({4, 2400});
    const tensor y = ops.get<linear_ops>().linear_forward(flat, lw, bias_, false);
    auto back =
        ops.get<linear_ops>().linear_backward(flat, lw, true, {}, false, TwoBackends::activation(ops, dy_), true, true);
    tensor g = TwoBackends::activation(ops, back.input.reshaped(pooled.y.dims()));
    g = ops.get<convolution_ops>().pool2d_backward({}, norm.y.dims(), pooled.workspace, g);
    auto norm_back =
        ops.get<normalisation_ops>().batch_norm2d_backward({}, convolved, scale_, norm, true, std::move(g), true);
    const auto conv_back = ops.get<convolution_ops>().conv2d_backward(args, x_, w, false, {}, false,
                                                                      std::move(norm_back.input), false, true);
    tensor momentum = ops.allocate(dtype::f32, conv_.dims(), memory_use::optimizer_state, w.format());
    ops.fill(momentum, 0);
    tensor next = ops.allocate(dtype::f32, conv_.dims(), memory_use::weights, w.format());
    ops.get<optimizer_ops>().sgd_step({.momentum = 0.9F}, w, conv_back.weight, momentum, next, one_flag(ops), 0);
    return {values_of(ops, y), values_of(ops, back.weight), values_of(ops, norm_back.weight), values_of(ops, next)};
  }

private:
  tensor x_, conv_, scale_, shift_, linear_, bias_, dy_;
};

TEST_F(Bits, RepeatsGiveTheSameBitsOnAnyStreamOfAsManyThreads) {
  const little_network network(*this);
  std::vector<std::vector<float>> first;
  fast->run([&](backend& ops) { first = network.step(ops); });
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto other = machine->create_stream({.name = "again", .threads = threads()});
    other->run([&](backend& ops) {
      for (int i = 0; i < 2; ++i) {
        const auto again = network.step(ops);
        for (std::size_t t = 0; t < first.size(); ++t)
          expect_same_bits(again[t], first[t], "repeat");
      }
    });
  }
}

TEST_F(Bits, TwoStreamsAtOnceGiveTheSameBitsAsOneAlone) {
  const little_network network(*this);
  const auto one = machine->create_stream({.name = "one", .threads = 1});
  const auto two = machine->create_stream({.name = "two", .threads = 1});
  std::vector<std::vector<float>> alone;
  one->run([&](backend& ops) { alone = network.step(ops); });
  const auto repeat = [&](backend& ops) {
    for (int i = 0; i < 20; ++i) {
      const auto again = network.step(ops);
      for (std::size_t t = 0; t < alone.size(); ++t)
        expect_same_bits(again[t], alone[t], "beside another stream");
    }
  };
  for (int i = 0; i < 3; ++i)
    one->post(repeat, nullptr);
  two->run(repeat);
  one->run([](backend&) {});
}

TEST_F(Bits, NothingIsAllocatedOnceTheShapesAreKnown) {
  const little_network network(*this);
  fast->run([&](backend& ops) {
    network.step(ops);
    network.step(ops);
    const auto reserved = machine->memory().usage().reserved_bytes;
    const auto live = machine->memory().usage().total_live_bytes;
    for (int i = 0; i < 50; ++i)
      network.step(ops);
    EXPECT_EQ(machine->memory().usage().reserved_bytes, reserved);
    EXPECT_EQ(machine->memory().usage().total_live_bytes, live);
  });
}

TEST_F(Bits, OverwritesOnlyWhatNobodyElseHolds) {
  const tensor held = random({2, 20, 5, 5}), other = random({2, 20, 5, 5});
  fast->run([&](backend& ops) {
    const tensor a = activation(ops, held), b = activation(ops, other);
    const auto before = values_of(ops, a);
    ops.get<elementwise_ops>().add(a, b, true);
    ops.get<elementwise_ops>().relu_forward(a);
    ops.get<elementwise_ops>().relu_backward(b, a);
    ops.get<elementwise_ops>().dropout({}, 0.5F, a);
    expect_same_bits(values_of(ops, a), before, "a shared input");
    tensor mine = activation(ops, held);
    const void* bytes = mine.raw();
    const tensor sum = ops.get<elementwise_ops>().add(std::move(mine), b, true);
    EXPECT_EQ(sum.raw(), bytes);
    tensor gradient = activation(ops, held);
    const void* gradient_bytes = gradient.raw();
    EXPECT_EQ(ops.get<elementwise_ops>().relu_backward(b, std::move(gradient)).raw(), gradient_bytes);
  });
}

} // namespace
} // namespace penstock
