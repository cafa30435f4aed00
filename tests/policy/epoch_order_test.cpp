// The order of an epoch: a permutation from (seed, epoch) alone, the same on every platform.
#include "actors/dataset.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace penstock::actors {
namespace {

std::vector<std::int64_t> identity(std::int64_t samples) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

TEST(EpochOrder, HoldsEverySampleOnce) {
  for (const std::int64_t samples : {0, 1, 2, 3, 10, 1000, 60000}) {
    auto order = epoch_order(samples, 7, 3, true);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, identity(samples));
  }
}

TEST(EpochOrder, IsTheIdentityWhenNotShuffled) {
  EXPECT_EQ(epoch_order(100, 7, 3, false), identity(100));
}

TEST(EpochOrder, RepeatsForTheSameSeedAndEpoch) {
  EXPECT_EQ(epoch_order(1000, 7, 3, true), epoch_order(1000, 7, 3, true));
}

TEST(EpochOrder, DiffersBetweenSeedsAndBetweenEpochs) {
  const auto base = epoch_order(1000, 7, 3, true);
  EXPECT_NE(base, epoch_order(1000, 7, 4, true));
  EXPECT_NE(base, epoch_order(1000, 8, 3, true));
  EXPECT_NE(epoch_order(1000, 7, 4, true), epoch_order(1000, 8, 3, true));
  EXPECT_NE(base, identity(1000));
}

// Fixed for ever: resumed runs and runs on other machines rely on these numbers. Computed apart from this code, with
// Python's integers, from the definition in epoch_order.cpp.
TEST(EpochOrder, KeepsItsNumbers) {
  EXPECT_THAT(epoch_order(10, 0, 0, true), testing::ElementsAre(1, 7, 6, 2, 0, 9, 8, 4, 5, 3));
  EXPECT_THAT(epoch_order(10, 0xFFFFFFFFFFFFFFFFU, 12, true), testing::ElementsAre(3, 7, 8, 0, 1, 5, 9, 4, 2, 6));
}

TEST(EpochOrder, PutsEverySampleEverywhereEquallyOften) {
  constexpr int epochs = 12000;
  std::map<std::vector<std::int64_t>, int> seen;
  for (int epoch = 0; epoch < epochs; ++epoch)
    ++seen[epoch_order(4, 1, epoch, true)];
  ASSERT_EQ(seen.size(), 24U);
  double chi_squared = 0;
  for (const auto& [order, count] : seen)
    chi_squared += (count - 500.0) * (count - 500.0) / 500.0;
  EXPECT_LT(chi_squared, 49.7); // 99.9% of fair shuffles, 23 degrees of freedom
}

} // namespace
} // namespace penstock::actors
