// Gradients against finite differences: that backward belongs to forward, whatever the plain loops say.
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

#include <functional>

namespace penstock {
namespace {

class Gradients : public TwoBackends {
public:
  int threads() const override { return 1; }

  // Loss = sum of dy * f(x). Along a direction d, (loss(x + h d) - loss(x - h d)) / 2h must equal sum of dx * d.
  void expect_slope(const tensor& x, const tensor& dy, const std::function<tensor(backend&, const tensor&)>& forward,
                    const std::function<tensor(backend&, const tensor&)>& backward) {
    const tensor direction = random(x.dims());
    const double h = 1e-2;
    fast->run([&](backend& ops) {
      double losses[2];
      for (const int side : {0, 1}) {
        const tensor moved = ops.allocate(dtype::f32, x.dims(), memory_use::scratch);
        for (std::int64_t i = 0; i < x.elements(); ++i)
          moved.data<float>()[i] =
              x.data<float>()[i] + static_cast<float>(side == 0 ? h : -h) * direction.data<float>()[i];
        losses[side] = dot(values_of(ops, forward(ops, moved)), dy);
      }
      const double slope = (losses[0] - losses[1]) / (2 * h);
      const double predicted = dot(values_of(ops, backward(ops, x)), direction);
      EXPECT_NEAR(predicted, slope, 2e-3 * (1 + std::abs(slope)));
    });
  }

  static double dot(const std::vector<float>& a, const tensor& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += static_cast<double>(a[i]) * b.data<float>()[i];
    return sum;
  }
};

TEST_F(Gradients, OfAConvolutionAreItsSlopes) {
  const conv2d_args args{{2, 1}, {1, 2}};
  const tensor x = random({2, 20, 7, 6}), weight = random({24, 20, 3, 3}), dy = random({2, 24, 4, 8});
  const auto stored = [&](backend& ops, const tensor& w) {
    return ops.reorder(w, ops.get<convolution_ops>().conv2d_weight_format(args, x.dims(), w.dims()),
                       memory_use::weights);
  };
  expect_slope(
      x, dy,
      [&](backend& ops, const tensor& at) {
        return ops.get<convolution_ops>().conv2d_forward(args, activation(ops, at), stored(ops, weight), {}, false);
      },
      [&](backend& ops, const tensor& at) {
        return ops.get<convolution_ops>()
            .conv2d_backward(args, activation(ops, at), stored(ops, weight), false, {}, false, activation(ops, dy),
                             true, false)
            .input;
      });
  expect_slope(
      weight, dy,
      [&](backend& ops, const tensor& at) {
        return ops.get<convolution_ops>().conv2d_forward(args, activation(ops, x), stored(ops, at), {}, false);
      },
      [&](backend& ops, const tensor& at) {
        return ops.get<convolution_ops>()
            .conv2d_backward(args, activation(ops, x), stored(ops, at), false, {}, false, activation(ops, dy), false,
                             true)
            .weight;
      });
}

TEST_F(Gradients, OfALinearLayerAreItsSlopes) {
  const tensor x = random({5, 70}), weight = random({33, 70}), dy = random({5, 33});
  expect_slope(
      x, dy,
      [&](backend& ops, const tensor& at) { return ops.get<linear_ops>().linear_forward(at, weight, {}, false); },
      [&](backend& ops, const tensor& at) {
        return ops.get<linear_ops>()
            .linear_backward(at, weight, false, {}, false, activation(ops, dy), true, false)
            .input;
      });
  expect_slope(
      weight, dy,
      [&](backend& ops, const tensor& at) { return ops.get<linear_ops>().linear_forward(x, at, {}, false); },
      [&](backend& ops, const tensor& at) {
        return ops.get<linear_ops>().linear_backward(x, at, false, {}, false, activation(ops, dy), false, true).weight;
      });
}

TEST_F(Gradients, OfBatchNormAreItsSlopes) {
  const tensor x = random({4, 20, 3, 5}, -2.0F, 2.0F), scale = random({20}), shift = random({20});
  const tensor dy = random({4, 20, 3, 5});
  expect_slope(
      x, dy,
      [&](backend& ops, const tensor& at) {
        return ops.get<normalisation_ops>().batch_norm2d_forward({}, activation(ops, at), scale, shift, false).y;
      },
      [&](backend& ops, const tensor& at) {
        const tensor source = activation(ops, at);
        const auto saved = ops.get<normalisation_ops>().batch_norm2d_forward({}, source, scale, shift, false);
        return ops.get<normalisation_ops>()
            .batch_norm2d_backward({}, source, scale, saved, false, activation(ops, dy), true)
            .input;
      });
}

TEST_F(Gradients, OfAveragePoolingAndTheLossAreTheirSlopes) {
  const pool2d_args args{pool_kind::average, {3, 2}, {2, 2}, {1, 1}, true, true};
  const tensor x = random({2, 20, 6, 5});
  tensor dy;
  fast->run([&](backend& ops) {
    dy = random(ops.get<convolution_ops>().pool2d_forward(args, activation(ops, x), false).y.dims());
  });
  expect_slope(
      x, dy,
      [&](backend& ops, const tensor& at) {
        return ops.get<convolution_ops>().pool2d_forward(args, activation(ops, at), true).y;
      },
      [&](backend& ops, const tensor&) {
        return ops.get<convolution_ops>().pool2d_backward(args, x.dims(), {}, activation(ops, dy));
      });

  const tensor logits = random({6, 9}, -3.0F, 3.0F), one = random({1}, 1.0F, 1.0F);
  tensor labels = tensor::allocate(machine->memory(), dtype::i64, {6}, memory_use::scratch);
  for (std::int64_t i = 0; i < 6; ++i)
    labels.data<std::int64_t>()[i] = (4 * i) % 9;
  expect_slope(
      logits, one,
      [&](backend& ops, const tensor& at) {
        tensor loss = ops.allocate(dtype::f32, {1}, memory_use::scratch);
        loss.data<float>()[0] =
            static_cast<float>(ops.get<loss_ops>().softmax_cross_entropy(at, labels, 0.1F).sums.data<double>()[0]);
        return loss;
      },
      [&](backend& ops, const tensor& at) {
        const auto loss = ops.get<loss_ops>().softmax_cross_entropy(at, labels, 0.1F);
        return ops.get<loss_ops>().softmax_cross_entropy_backward(loss.probabilities, labels, 0.1F, 1.0F);
      });
}

} // namespace
} // namespace penstock
