// Levels of links and the time that bytes take on them, against numbers worked out by hand.
#include "planner/cluster/cluster.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace penstock::planner {
namespace {

/// 2 x 4 x 2 devices: 10 GB/s and 1 us, 2 GB/s and 10 us, 1 GB/s and 100 us.
cluster three_levels() {
  auto c = flat_cluster(16, 1);
  c.levels = {{.group = 2, .bandwidth_bytes_per_s = 10e9, .latency_s = 1e-6},
              {.group = 4, .bandwidth_bytes_per_s = 2e9, .latency_s = 10e-6},
              {.group = 2, .bandwidth_bytes_per_s = 1e9, .latency_s = 100e-6}};
  check_cluster(c);
  return c;
}

std::vector<int> first(int count) {
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

TEST(Links, TheInnermostLevelThatJoinsBoth) {
  const auto c = three_levels();
  EXPECT_EQ(c.level_between(5, 5), -1);
  EXPECT_EQ(c.level_between(0, 1), 0);
  EXPECT_EQ(c.level_between(1, 2), 1);
  EXPECT_EQ(c.level_between(7, 0), 1);
  EXPECT_EQ(c.level_between(7, 8), 2);
  EXPECT_EQ(c.level_between(15, 0), 2);
  EXPECT_EQ(refusal([&] { c.level_between(0, 16); }), "there is no device 16, the cluster has 16");
  EXPECT_NE(refusal([&] { c.level_between(-1, 0); }), "");
}

TEST(Links, ATransferIsLatencyAndBytesOverBandwidth) {
  const auto c = three_levels();
  EXPECT_EQ(transfer_seconds(c, 3, 3, 1e9), 0);
  EXPECT_DOUBLE_EQ(transfer_seconds(c, 0, 1, 1e9), 0.1 + 1e-6);
  EXPECT_DOUBLE_EQ(transfer_seconds(c, 0, 2, 1e9), 0.5 + 10e-6);
  EXPECT_DOUBLE_EQ(transfer_seconds(c, 9, 2, 1e9), 1 + 100e-6);
  EXPECT_DOUBLE_EQ(transfer_seconds(c, 9, 2, 0), 100e-6);
}

TEST(AllReduce, NothingToDoBelowTwoDevices) {
  EXPECT_EQ(all_reduce_seconds(three_levels(), {}, 1e9), 0);
  EXPECT_EQ(all_reduce_seconds(three_levels(), {3}, 1e9), 0);
}

TEST(AllReduce, EachDeviceMovesTwiceItsShareOfTheOthers) {
  // 2 x 3 / 4 GB each way at 2 GB/s, in 6 messages
  auto c = flat_cluster(4, 2e9, 1e-3);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1, 2, 3}, 1e9), 0.75 + 6e-3);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {3, 1}, 1e9), 0.5 + 2e-3);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1, 2, 3}, 0), 6e-3);
}

TEST(AllReduce, TheSlowestLevelThatIsSpannedCounts) {
  auto c = three_levels();
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1}, 1e9), 0.1 + 2e-6);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1, 2, 3}, 1e9), 1.5 / 2 + 60e-6);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(16), 1e9), 30.0 / 16 + 30 * 100e-6);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {4, 12}, 1e9), 1 + 200e-6); // the outermost alone
  c.levels[0].bandwidth_bytes_per_s = 0.1e9;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1, 2, 3}, 1e9), 15 + 6e-6); // now the innermost is the slowest
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 2}, 1e9), 0.5 + 20e-6);     // and these two do not use it
}

TEST(AllReduce, ASharedMediumIsDividedByThoseInOneComponentOfIt) {
  auto c = three_levels();
  c.levels[0].shared = true;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1}, 1e9), 0.2 + 2e-6);
  c.levels[1].shared = true;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1, 2, 3}, 1e9), 4 * 1.5 / 2 + 60e-6);
  // eight in each of two components of the middle level, all of 14 / 8 GB; the outermost is not shared
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(16), 1e9), 8 * 30.0 / 16 / 2 + 30 * 10e-6);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {4, 12}, 1e9), 1 + 200e-6);
}

TEST(AllReduce, TurnsOfTheDirectionsHalveALinkOfItsOwnAndNotASharedOne) {
  auto c = flat_cluster(4, 2e9, 1e-3);
  c.levels[0].half_duplex = true;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(4), 1e9), 1.5 + 6e-3);
  c.levels[0].shared = true;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(4), 1e9), 3 + 6e-3);
}

TEST(AllReduce, WorkersOfOneProcessReadAndAddEachOthers) {
  auto c = flat_cluster(4, 2e9, 1e-3);
  c.levels[0].by_reference = true;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(4), 1e9), 1.5);
  c.levels[0].group = 2;
  c.levels.push_back({.group = 2, .bandwidth_bytes_per_s = 1e9});
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {0, 1}, 1e9), 0.5);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, first(4), 1e9), 1.5); // two processes: over the links
}

TEST(AllReduce, NeverCheaperForMoreBytesOrOneMoreDevice) {
  const auto c = three_levels();
  double last = 0;
  for (int count = 2; count <= 16; ++count) {
    const auto now = all_reduce_seconds(c, first(count), 1e9);
    EXPECT_GE(now, last) << count;
    EXPECT_GT(all_reduce_seconds(c, first(count), 2e9), now) << count;
    last = now;
  }
}

} // namespace
} // namespace penstock::planner
