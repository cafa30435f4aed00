// More shapes than primitives are kept: what was let go is made again and computes the same.
#include "kernels/ops/linear_ops.hpp"
#include "kernels/shape_key.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

namespace penstock {
namespace {

TEST_F(TwoBackends, ShapesWithoutEndComputeTheSameBitsWhenTheyComeAgain) {
  const tensor weight = random({3, 5}), bias = random({3});
  const auto most = static_cast<std::int64_t>(primitives_kept);
  const tensor x = random({most + 2, 5}), dy = random({most + 2, 3});
  fast->run([&](backend& ops) {
    auto& linear = ops.get<linear_ops>();
    const auto first_rows = [](const tensor& all, std::int64_t rows) {
      return tensor(dtype::f32, {rows, all.dim(1)}, all.storage());
    };
    const auto step = [&](std::int64_t rows) {
      const tensor source = first_rows(x, rows);
      const auto g = linear.linear_backward(source, weight, true, {}, false, first_rows(dy, rows), true, true);
      std::vector<std::vector<float>> results;
      for (const tensor& t : {linear.linear_forward(source, weight, bias, false), g.input, g.weight, g.bias})
        results.push_back(values_of(ops, t));
      return results;
    };
    const auto first = step(1), second = step(2);
    for (std::int64_t rows = 3; rows <= most + 2; ++rows)
      linear.linear_backward(first_rows(x, rows), weight, true, {}, false, first_rows(dy, rows), true, true),
          linear.linear_forward(first_rows(x, rows), weight, bias, false);
    EXPECT_EQ(step(1), first) << "let go and made again";
    EXPECT_EQ(step(2), second);
  });
}

} // namespace
} // namespace penstock
