// What decides something on the delayed device: the plain loops' bits, all of a work fetched together.
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "tests/kernels/delayed/delayed_test.hpp"
#include "tests/support/delayed/counters.hpp"

#include <cmath>
#include <cstring>

namespace penstock::testing {
namespace {

using scalars = std::vector<tensor>;

/// What a work asks for, as bytes.
std::vector<std::string> fetched(stream& on, const std::function<scalars(backend&)>& work) {
  scalars there;
  on.run([&](backend& ops) { there = ops.fetch(work(ops)); });
  std::vector<std::string> bytes;
  for (const auto& t : there)
    bytes.emplace_back(reinterpret_cast<const char*>(t.raw()), t.bytes());
  return bytes;
}

class DelayedScalars : public ::testing::Test {
public:
  void expect_bits_of_the_loops(const std::function<scalars(backend&)>& work) {
    const auto loops = open_device({})->create_stream({.name = "loops", .reference = true});
    EXPECT_EQ(fetched(*one.work, work), fetched(*loops, work));
  }
  memory_pool host;
  delayed_machine one;
};

TEST_F(DelayedScalars, OfALossAreThere) {
  const auto logits = counting(host, 12).reshaped({3, 4});
  const auto labels = tensor::allocate(host, dtype::i64, {3}, memory_use::scratch);
  for (const std::int64_t last : {2, 7}) {
    std::copy_n(std::array<std::int64_t, 3>{3, 0, last}.data(), 3, labels.data<std::int64_t>());
    expect_bits_of_the_loops([&](backend& ops) {
      return scalars{ops.get<loss_ops>()
                         .softmax_cross_entropy(ops.from_host(logits, memory_use::scratch),
                                                ops.from_host(labels, memory_use::scratch), 0.1F)
                         .sums};
    });
  }
}

TEST_F(DelayedScalars, OfUpdatesGoIntoTheElementTheyWereGiven) {
  const auto weight = counting(host, 9);
  expect_bits_of_the_loops([&](backend& ops) {
    const auto flags = ops.allocate_zeroed(dtype::i32, {3}, memory_use::scratch);
    const auto sums = ops.allocate_zeroed(dtype::f64, {2}, memory_use::scratch);
    auto w = ops.copy(ops.from_host(weight, memory_use::scratch), memory_use::scratch);
    auto first = ops.allocate_zeroed(dtype::f32, {9}, memory_use::scratch);
    auto second = ops.allocate_zeroed(dtype::f32, {9}, memory_use::scratch);
    auto& steps = ops.get<optimizer_ops>();
    steps.sgd_step({.learning_rate = INFINITY, .momentum = 0.5F}, w, w, first, w, flags, 2);
    steps.adam_step({}, first, first, first, second, first, flags, 1);
    steps.sum_of_squares(first, sums, 1);
    return scalars{flags, sums, w, first, second};
  });
}

TEST_F(DelayedScalars, SayWhereTheFirstValueIsThatIsNoNumber) {
  auto values = counting(host, 12);
  values.data<float>()[7] = -INFINITY;
  expect_bits_of_the_loops([&](backend& ops) {
    auto& each = ops.get<elementwise_ops>();
    const auto x = ops.from_host(values, memory_use::scratch);
    return scalars{each.find_nonfinite(x), each.find_nonfinite(each.relu_forward(ops.copy(x, memory_use::scratch))),
                   each.scaled(x, 0.25F)};
  });
}

TEST_F(DelayedScalars, RunningStatisticsAreKeptOnTheDevice) {
  const auto values = counting(host, 24).reshaped({2, 3, 2, 2});
  expect_bits_of_the_loops([&](backend& ops) {
    const auto x = ops.from_host(values, memory_use::scratch);
    const auto scale = ops.from_host(counting(host, 3), memory_use::scratch);
    const running_statistics running{ops.allocate_zeroed(dtype::f32, {3}, memory_use::scratch),
                                     ops.allocate_zeroed(dtype::f32, {3}, memory_use::scratch),
                                     ops.allocate_zeroed(dtype::i64, {}, memory_use::scratch)};
    auto& norm = ops.get<normalisation_ops>();
    norm.update_running_statistics({}, 8, norm.batch_norm2d_forward({}, x, scale, scale, true), running);
    return scalars{running.mean, running.variance, running.batches};
  });
}

} // namespace
} // namespace penstock::testing
