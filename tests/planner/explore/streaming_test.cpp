// FPGA-like devices: times by operations, what fits on the chip, and the schedules that stream.
#include "planner/explore/streaming.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

/// 1000 multipliers at 1 MHz: 1e9 multiply-adds a second.
streaming_device board(double on_chip_bytes = 1e6, double memory_bytes_per_s = 1e9) {
  return {.multipliers = 1000,
          .clock_hz = 1e6,
          .efficiency = 1,
          .on_chip_bytes = on_chip_bytes,
          .memory_bytes_per_s = memory_bytes_per_s};
}

cluster boards(int count, const streaming_device& d, double bandwidth = 1e9, double latency_s = 0) {
  auto c = flat_cluster(count, bandwidth, latency_s);
  c.devices.front().streaming = d;
  return c;
}

/// N stages of F = 1, B = 2.
machine balanced(int stages, double output_bytes = 0) {
  machine m;
  for (int s = 0; s < stages; ++s) {
    machine_stage stage;
    stage.devices = {s};
    stage.output_bytes = {s + 1 < stages ? output_bytes : 0};
    stage.weight_bytes = 10;
    stage.gradient_bytes = 10;
    stage.kept_bytes = {7};
    m.stages.push_back(stage);
  }
  return m;
}

TEST(Streaming, TimesFollowTheOperations) {
  auto p = chain_of({{"conv"}, {"relu"}}, 4);
  p.layers.front().forward_flops = 2e9;
  const auto c = with_streaming_profiles(boards(2, board()), p);
  const auto& own = *c.devices.front().own_profile;
  EXPECT_DOUBLE_EQ(own.measurements.front().layers.front().forward_seconds, 4);
  EXPECT_DOUBLE_EQ(own.measurements.front().layers.front().backward_seconds, 8);
  EXPECT_DOUBLE_EQ(own.measurements.front().layers.back().forward_seconds, 0);
}

TEST(Streaming, NeedsOperationCounts) {
  EXPECT_EQ(refusal_of([] { with_streaming_profiles(boards(2, board()), chain_of({{"conv"}})); }).find("device type"),
            0U);
  EXPECT_EQ(with_streaming_profiles(flat_cluster(2, 1e9), chain_of({{"conv"}})).devices.front().own_profile, nullptr);
}

TEST(Streaming, OffChipTrafficIsAFloor) {
  EXPECT_TRUE(floor_of(board(100), 20, 30, 2).on_chip);
  const auto off = floor_of(board(100, 10), 20, 30, 3);
  EXPECT_FALSE(off.on_chip);
  EXPECT_DOUBLE_EQ(off.forward_seconds, 5);
  EXPECT_DOUBLE_EQ(off.backward_seconds, 7);
}

TEST(Streaming, TransfersHideBehindTheComputation) {
  auto m = balanced(2, 0.5e9); // half a second on the link
  const auto c = boards(2, board());
  EXPECT_DOUBLE_EQ(stream_through(m, c, {2, 1}, 4), 4e9);
  EXPECT_EQ(m.stages[0].forward_seconds, (std::vector<double>(4, 1)));
  EXPECT_EQ(m.stages[0].output_bytes, (std::vector<double>{0}));

  auto slow = balanced(2, 1.5e9); // longer than a forward, shorter than a backward
  stream_through(slow, c, {2, 1}, 1);
  EXPECT_DOUBLE_EQ(slow.stages[0].forward_seconds[0], 1.5);
  EXPECT_DOUBLE_EQ(slow.stages[1].forward_seconds[0], 1.5);
  EXPECT_DOUBLE_EQ(slow.stages[1].backward_seconds[0], 2);
}

TEST(Streaming, LeavesSharedMediaAndOtherDevicesToTheLinks) {
  auto m = balanced(2, 5e9);
  auto c = boards(2, board());
  c.levels.front().shared = true;
  EXPECT_DOUBLE_EQ(stream_through(m, c, {2, 1}, 1), 0);
  EXPECT_EQ(m.stages[0].output_bytes, (std::vector<double>{5e9}));
  EXPECT_DOUBLE_EQ(stream_through(m, flat_cluster(2, 1e9), {2, 1}, 1), 0);
  EXPECT_DOUBLE_EQ(m.stages[0].forward_seconds[0], 1);
}

TEST(Streaming, FbpTakesThePublishedTime) {
  for (const int n : {1, 2, 5, 8})
    for (const int m : {1, 3, 8, 32}) {
      const auto e = estimate_fbp(balanced(n), boards(n, board()), m);
      EXPECT_DOUBLE_EQ(e.seconds, (m + 2 * n - 1) * 3.0) << n << " stages, " << m << " micro-batches";
      EXPECT_NEAR(1 - e.busy.front(), (2.0 * n - 1) / (m + 2 * n - 1), 1e-12);
    }
}

TEST(Streaming, FbpKeepsTwiceTheFeatures) {
  const auto e = estimate_fbp(balanced(3), boards(3, board()), 100);
  EXPECT_EQ(e.in_flight, (std::vector<std::int64_t>{6, 4, 2}));
  EXPECT_DOUBLE_EQ(e.memory[0].activations, 42);
  EXPECT_DOUBLE_EQ(e.memory[0].total, 62);
}

TEST(Streaming, FbpAsksForLessBandwidthThanTheBursts) {
  // 2.9 s on the link: hidden behind F + B = 3, not behind F = 1.
  auto m = balanced(2, 2.9e9);
  const auto c = boards(2, board());
  EXPECT_DOUBLE_EQ(estimate_fbp(m, c, 10).seconds, (10 + 3) * 3.0);
  stream_through(m, c, {2, 1}, 1);
  EXPECT_DOUBLE_EQ(m.stages[0].forward_seconds[0], 2.9);
  EXPECT_EQ(estimate_fbp(balanced(2, 4e9), c, 10).slowest_stage, 0);
  EXPECT_DOUBLE_EQ(estimate_fbp(balanced(2, 4e9), c, 1).seconds, 2 * 4 + 2 * 3.0);
}

} // namespace
} // namespace penstock::planner::testing
