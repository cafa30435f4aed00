// Blocks: counted by use, recycled, aligned, given back; from many threads.
#include "kernels/check.hpp"
#include "kernels/memory_pool.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <random>
#include <thread>

namespace penstock {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(MemoryPool, CountsEachUseApartAndInTotal) {
  memory_pool pool;
  auto weights = pool.allocate(100, memory_use::weights);
  {
    const auto scratch = pool.allocate(50, memory_use::scratch);
    EXPECT_EQ(pool.usage().live(memory_use::scratch), 50);
    EXPECT_EQ(pool.usage().total_live_bytes, 150);
  }
  const auto more = pool.allocate(7, memory_use::weights);
  const auto usage = pool.usage();
  EXPECT_EQ(usage.live(memory_use::weights), 107) << "as requested, not rounded";
  EXPECT_EQ(usage.live(memory_use::scratch), 0);
  EXPECT_EQ(usage.peak(memory_use::scratch), 50);
  EXPECT_EQ(usage.live(memory_use::gradients), 0);
  EXPECT_EQ(usage.total_live_bytes, 107);
  EXPECT_EQ(usage.total_peak_bytes, 150);
  EXPECT_GE(usage.reserved_bytes, 150);
}

TEST(MemoryPool, GivesZerosWhereZerosAreAskedFor) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, 2 * mebibyte, 33 * mebibyte + 7}) {
    memory_pool pool;
    for (int use = 0; use < 3; ++use) { // the second and third time blocks are reused
      auto zeros = pool.allocate_zeroed(bytes, memory_use::optimizer_state);
      auto any = pool.allocate(bytes, memory_use::weights);
      ASSERT_EQ(zeros.size(), bytes);
      EXPECT_EQ(std::count(zeros.data(), zeros.data() + bytes, std::byte{0}), static_cast<std::ptrdiff_t>(bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(zeros.data()) % 64, 0U);
      EXPECT_EQ(pool.usage().live(memory_use::optimizer_state), static_cast<std::int64_t>(bytes));
      std::memset(zeros.data(), 7, bytes);
      std::memset(any.data(), 7, bytes);
    }
    pool.trim();
    EXPECT_EQ(pool.usage().reserved_bytes, 0);
  }
}

TEST(MemoryPool, CountsAHandleOnceHoweverOftenItIsCopied) {
  memory_pool pool;
  auto one = pool.allocate(64, memory_use::activations);
  auto two = one;
  EXPECT_EQ(one.use_count(), 2);
  EXPECT_EQ(one.identity(), two.identity());
  EXPECT_EQ(pool.usage().total_live_bytes, 64);
  one = {};
  EXPECT_EQ(pool.usage().total_live_bytes, 64);
  two = {};
  EXPECT_EQ(pool.usage().total_live_bytes, 0);
}

TEST(MemoryPool, RecyclesABlockForAnotherUse) {
  memory_pool pool;
  auto block = pool.allocate(1000, memory_use::weights);
  const auto* place = block.data();
  block = {};
  const auto reserved = pool.usage().reserved_bytes;
  const auto again = pool.allocate(990, memory_use::gradients);
  EXPECT_EQ(again.data(), place);
  EXPECT_EQ(pool.usage().reserved_bytes, reserved);
  EXPECT_EQ(pool.usage().live(memory_use::gradients), 990);
  EXPECT_EQ(pool.usage().live(memory_use::weights), 0);
}

TEST(MemoryPool, DoesNotWasteALargeBlockOnASmallNeed) {
  memory_pool pool;
  auto large = pool.allocate(mebibyte, memory_use::scratch);
  const auto* place = large.data();
  large = {};
  EXPECT_NE(pool.allocate(64, memory_use::scratch).data(), place);
  EXPECT_EQ(pool.allocate(mebibyte, memory_use::scratch).data(), place);
}

TEST(MemoryPool, AlignsEverySize) {
  memory_pool pool;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                  std::size_t{4095}, std::size_t{4097}, mebibyte + 1, 2 * mebibyte, 3 * mebibyte}) {
    const auto block = pool.allocate(bytes, memory_use::scratch);
    ASSERT_NE(block.data(), nullptr) << bytes;
    EXPECT_TRUE(block) << bytes;
    EXPECT_EQ(block.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0U) << bytes;
    if (bytes > 0) block.data()[bytes - 1] = std::byte{1};
  }
}

TEST(MemoryPool, GivesEachBufferBytesOfItsOwn) {
  memory_pool pool;
  std::mt19937 random(5);
  std::vector<buffer> held;
  for (int i = 0; i < 400; ++i) {
    auto b = pool.allocate(1 + random() % 9000, memory_use::scratch);
    std::memset(b.data(), static_cast<int>(b.size() % 251), b.size());
    if (held.size() < 40)
      held.push_back(std::move(b));
    else
      held[random() % held.size()] = std::move(b);
  }
  for (const auto& b : held)
    EXPECT_TRUE(
        std::all_of(b.data(), b.data() + b.size(), [&](std::byte x) { return x == std::byte(b.size() % 251); }));
}

TEST(MemoryPool, TrimGivesBackWhatNobodyUses) {
  memory_pool pool;
  const auto kept = pool.allocate(100, memory_use::scratch);
  const auto least = pool.usage().reserved_bytes;
  pool.allocate(3 * mebibyte, memory_use::scratch);
  EXPECT_GE(pool.usage().reserved_bytes, static_cast<std::int64_t>(3 * mebibyte));
  pool.trim();
  EXPECT_EQ(pool.usage().reserved_bytes, least);
  EXPECT_EQ(pool.usage().total_live_bytes, 100);
  EXPECT_GE(pool.usage().total_peak_bytes, static_cast<std::int64_t>(3 * mebibyte)) << "peaks are history";
}

TEST(MemoryPool, ResetPeakMeasuresWhatFollows) {
  memory_pool pool;
  const auto kept = pool.allocate(100, memory_use::weights);
  pool.allocate(900, memory_use::scratch);
  pool.reset_peak();
  EXPECT_EQ(pool.usage().total_peak_bytes, 100);
  EXPECT_EQ(pool.usage().peak(memory_use::weights), 100);
  EXPECT_EQ(pool.usage().peak(memory_use::scratch), 0);
  pool.allocate(200, memory_use::scratch);
  EXPECT_EQ(pool.usage().total_peak_bytes, 300);
}

TEST(MemoryPool, RefusesSizesThatNoMachineHas) {
  memory_pool pool;
  pool.allocate(10, memory_use::scratch); // a free block that a size gone round would find
  constexpr auto largest = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {largest, largest - 3, largest - 2 * mebibyte + 2, largest / 2 + 1})
    EXPECT_THAT(
        [&] { pool.allocate(bytes, memory_use::scratch); },
        ::testing::ThrowsMessage<error>(::testing::HasSubstr("no room for " + std::to_string(bytes) + " bytes")));
  EXPECT_EQ(pool.usage().total_live_bytes, 0);
  EXPECT_EQ(pool.usage().total_peak_bytes, 10);
}

TEST(MemoryPool, BuffersOutliveIt) {
  buffer last;
  {
    memory_pool pool;
    last = pool.allocate(5000, memory_use::weights);
  }
  std::memset(last.data(), 1, last.size());
  last = {};
  EXPECT_FALSE(last);
  EXPECT_EQ(last.data(), nullptr);
  EXPECT_EQ(last.size(), 0U);
}

TEST(MemoryPool, KeepsItsBooksFromManyThreads) {
  memory_pool pool;
  const auto shared = pool.allocate(64, memory_use::weights);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t, shared] {
      std::mt19937 random(t);
      std::vector<buffer> held(8);
      for (int i = 0; i < 3000; ++i) {
        auto& slot = held[random() % held.size()];
        slot = random() % 9 == 0
                   ? shared
                   : pool.allocate(1 + random() % 5000, memory_use{static_cast<std::uint8_t>(random() % 5)});
        if (slot.identity() != shared.identity()) slot.data()[slot.size() - 1] = std::byte{1};
        if (i % 1000 == 999) pool.trim();
      }
    });
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(pool.usage().total_live_bytes, 64);
  for (std::size_t u = 1; u < memory_use_count; ++u)
    EXPECT_EQ(pool.usage().live_bytes[u], 0);
  pool.trim();
  EXPECT_EQ(pool.usage().reserved_bytes, 64);
}

} // namespace
} // namespace penstock
