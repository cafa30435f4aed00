// Optimizer steps on a device's library compute what the plain loops do, on odd shapes too.
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"
#include "tests/kernels/scalars.hpp"

namespace penstock {
namespace {

TEST_F(TwoBackends, OptimizerStepsAgreeWithThePlainLoopsInPlaceAndNot) {
  const shape dims{33, 20, 3, 3};
  const tensor weight = random(dims), gradient = random(dims), first = random(dims), second = random(dims, 0.0F, 1.0F);
  for (const bool in_place : {false, true})
    expect_agreement(
        [&](backend& ops) {
          const auto format = ops.get<convolution_ops>().conv2d_weight_format({}, {8, 20, 9, 9}, dims);
          const auto stored = [&](const tensor& t) {
            return ops.reorder(ops.copy(plainly(ops, t), memory_use::weights), format, memory_use::weights);
          };
          std::vector<tensor> results;
          for (const sgd_args& args :
               {sgd_args{.learning_rate = 0.1F},
                sgd_args{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F},
                sgd_args{.learning_rate = 0.1F, .momentum = 0.9F, .nesterov = true, .gradient_scale = 0.5F}}) {
            const tensor w = stored(weight);
            tensor momentum = args.momentum == 0 ? tensor{} : stored(first);
            tensor next = in_place ? w : ops.allocate(dtype::f32, dims, memory_use::weights, format);
            ops.get<optimizer_ops>().sgd_step(args, w, stored(gradient), momentum, next, one_flag(ops), 0);
            results.insert(results.end(), {next, momentum});
          }
          const tensor w = stored(weight);
          tensor m = stored(first), v = stored(second);
          tensor next = in_place ? w : ops.allocate(dtype::f32, dims, memory_use::weights, format);
          ops.get<optimizer_ops>().adam_step({.gradient_scale = 0.5F, .step = 3}, w, stored(gradient), m, v, next,
                                             one_flag(ops), 0);
          results.insert(results.end(), {next, m, v});
          const tensor w2 = stored(weight), average = stored(first);
          tensor m2 = stored(first), v2 = stored(second);
          tensor next2 = in_place ? w2 : ops.allocate(dtype::f32, dims, memory_use::weights, format);
          ops.get<optimizer_ops>().adam_step({.decoupled = false, .gradient_scale = 0.5F, .step = 0}, w2,
                                             stored(gradient), m2, v2, next2, one_flag(ops), 0);
          ops.get<optimizer_ops>().count_into_average(0.25F, next2, average);
          results.insert(results.end(), {next2, m2, v2, average});
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
    one->run([&](backend& ops) { sums.push_back(sum_of_squares(ops, x)); });
  }
  EXPECT_NEAR(sums[0], exact, 1e-10 * exact);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

} // namespace
} // namespace penstock
