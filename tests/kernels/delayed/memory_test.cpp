// Memory of the delayed device: closed to the host, counted, reused in the stream's order and poisoned in between.
#include "tests/kernels/delayed/delayed_test.hpp"

#include <cmath>

namespace penstock::testing {
namespace {

class DelayedMemory : public ::testing::Test {
public:
  tensor on_device(std::int64_t count) {
    tensor x;
    one.work->run([&](backend& ops) { x = ops.from_host(counting(host, count), memory_use::activations); });
    return x;
  }
  memory_pool host;
  delayed_machine one;
};

TEST_F(DelayedMemory, IsClosedToTheHost) {
  const auto x = on_device(16);
  EXPECT_FALSE(x.is_on_host());
  EXPECT_THROW(x.data<float>(), std::logic_error);
}

TEST_F(DelayedMemory, KillsWhoFollowsItsAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read = [this] { return *reinterpret_cast<volatile float*>(on_device(16).raw()); };
  EXPECT_DEATH(read(), "");
}

TEST_F(DelayedMemory, IsCountedAsRequestedByUseWithPeaks) {
  auto& memory = one.device->memory();
  auto a = memory.allocate(1000, memory_use::weights);
  auto b = memory.allocate(30, memory_use::gradients);
  EXPECT_EQ(memory.usage().live(memory_use::weights), 1000);
  EXPECT_EQ(memory.usage().total_live_bytes, 1030);
  a = {};
  EXPECT_EQ(memory.usage().live(memory_use::weights), 0);
  EXPECT_EQ(memory.usage().total_peak_bytes, 1030);
  memory.reset_peak();
  EXPECT_EQ(memory.usage().total_peak_bytes, 30);
  EXPECT_EQ(memory.usage().reserved_bytes, 1024 + 64);
}

TEST_F(DelayedMemory, GoesToTheNextWhoAsksAtOnceWhileEarlierWorkOfTheStreamStillSeesItsBytes) {
  const std::byte* first = nullptr;
  const std::byte* next = nullptr;
  tensor kept;
  one.work->run([&](backend& ops) {
    auto x = ops.from_host(counting(host, 5), memory_use::activations);
    first = x.raw();
    kept = ops.copy(x, memory_use::activations);
    x = {};
    const auto y = ops.allocate_zeroed(dtype::f32, {5}, memory_use::activations);
    next = y.raw();
  });
  EXPECT_EQ(first, next);
  EXPECT_EQ(values_on(*one.work, kept), (std::vector<float>{0, 1, 2, 3, 4}));
}

TEST_F(DelayedMemory, HoldsPoisonUntilItIsWritten) {
  on_device(5); // and let go
  tensor fresh;
  one.work->run([&](backend& ops) { fresh = ops.allocate(dtype::f32, {5}, memory_use::scratch); });
  for (const float value : values_on(*one.work, fresh))
    EXPECT_TRUE(std::isnan(value));
}

TEST_F(DelayedMemory, MayOutliveItsDeviceAndStream) {
  auto x = on_device(5);
  one.work.reset();
  one.device.reset();
  x = {};
}

} // namespace
} // namespace penstock::testing
