// FPGA-like devices: times by operations, what fits on the chip, and the schedules that stream.
#include "planner/explore/explore.hpp"
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

/// ResNet-50 as PipeDream measured it, its operations in proportion to the times: 8.2 G a sample.
profile resnet50_by_operations(std::int64_t samples) {
  auto p = published_profile("resnet50", samples);
  double seconds = 0;
  for (const auto& c : p.measurements.front().layers)
    seconds += c.forward_seconds;
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    p.layers[l].forward_flops = 8.2e9 * p.measurements.front().layers[l].forward_seconds / seconds;
  auto one = p.measurements.front(); // for micro-batches of a sample
  one.samples = 1;
  p.measurements.push_back(one);
  return p;
}

/// VU29P boards with so much on their chips.
cluster large_boards(int count, double on_chip_bytes) {
  return boards(count,
                {.multipliers = 12288,
                 .clock_hz = 200e6,
                 .efficiency = 0.8,
                 .on_chip_bytes = on_chip_bytes,
                 .memory_bytes_per_s = 38e9},
                1e15);
}

TEST(Streaming, ResNet50OnChipTakesBaPipesTimes) {
  constexpr int batch = 32, microbatches = 32, stages = 4;
  const auto p = resnet50_by_operations(batch);
  const auto c = large_boards(stages, 1e15);
  const double whole = 3 * 8.2e9 / 2 / (12288 * 200e6 * 0.8); // F + B of a sample, B = 2 F
  auto best = make_plan(p, c,
                        {.batch = batch,
                         .schedules = {"fbp-as"},
                         .microbatches = {microbatches},
                         .stages = stages,
                         .replicas = {1, 1, 1, 1},
                         .allow_recompute = false});
  double longest = 0, sum = 0;
  for (const auto& s : best.predicted->stages) {
    longest = std::max(longest, s.forward_seconds + s.backward_seconds);
    sum += s.forward_seconds + s.backward_seconds;
  }
  EXPECT_NEAR(sum, whole, 1e-9);
  // (M + 2 N - 1) (F + B); where stages differ, 2 of each to fill and drain and M - 1 of the longest.
  EXPECT_NEAR(best.predicted->step_seconds, 2 * sum + (microbatches - 1) * longest, 1e-9);
  const auto balanced = (microbatches + 2 * stages - 1) * whole / stages;
  EXPECT_NEAR(best.predicted->step_seconds, balanced, 0.1 * balanced);
  EXPECT_NEAR(best.predicted->speedup_over_one_device, batch * whole / best.predicted->step_seconds, 1e-6);
  EXPECT_NEAR(best.predicted->speedup_over_one_device, 3.246, 0.001);
  best.schedule = "1f1b"; // 1F1B-AS: (M + N - 1) (F + B)
  for (auto& stage : best.stages)
    stage.in_flight = 0;
  const auto bursts = predict(best, p, c);
  EXPECT_NEAR(bursts.predicted->step_seconds, sum + (microbatches - 1) * longest, 0.02 * sum * microbatches);
  EXPECT_LT(bursts.predicted->step_seconds, best.predicted->step_seconds);
}

TEST(Streaming, OneDeviceIsItsBestSimulatedPlanEverywhere) {
  const auto p = resnet50_by_operations(16);
  for (const double on_chip : {43e6, 1e15}) { // weights are read again and again, or never
    const auto c = large_boards(3, on_chip);
    const auto alone = make_plan(p, c, {.batch = 16, .devices = 1});
    const auto& predicted = *alone.predicted;
    EXPECT_NEAR(predicted.speedup_over_one_device, 1, 1e-6) << on_chip;
    for (const auto& row : alone.considered)
      EXPECT_LE(predicted.step_seconds * predicted.speedup_over_one_device / row.step_seconds, 1 + 1e-6) << row.text;
    EXPECT_GE(make_plan(p, c, {.batch = 16}).predicted->speedup_over_one_device, 1) << on_chip;
  }
}

} // namespace
} // namespace penstock::planner::testing
