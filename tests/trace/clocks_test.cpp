// Corrections keep every bound that can be kept, and the least is said of those that cannot.
#include "actors/trace/clocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock::actors {
namespace {

/// The most that a bound is broken by.
std::int64_t most_broken(const clock_corrections& c, const std::vector<clock_bound>& bounds) {
  std::int64_t most = 0;
  for (const auto& b : bounds)
    most =
        std::max(most, c.ns[static_cast<std::size_t>(b.early)] - c.ns[static_cast<std::size_t>(b.late)] - b.slack_ns);
  return most;
}

TEST(Clocks, RightClocksAreLeftAlone) {
  const auto c = correct_clocks(3, {{0, 1, 50}, {1, 0, 40}, {1, 2, 0}});
  EXPECT_EQ(c.ns, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(c.conflict_ns, 0);
  EXPECT_EQ(correct_clocks(1, {}).ns, std::vector<std::int64_t>{0});
}

TEST(Clocks, AWrongClockIsSetSoThatBothWaysTakeAsLong) {
  // What clock 0 sent arrives 30 ahead of time, and the way back takes 100: 35 each.
  const auto c = correct_clocks(2, {{0, 1, -30}, {1, 0, 100}, {0, 1, -10}});
  EXPECT_EQ(c.ns, (std::vector<std::int64_t>{0, 65}));
  EXPECT_EQ(c.conflict_ns, 0);
}

TEST(Clocks, AWrongClockThatNothingBoundsOnTheOtherSideIsMovedAsFarAsItMust) {
  EXPECT_EQ(correct_clocks(2, {{0, 1, -30}}).ns, (std::vector<std::int64_t>{0, 30}));
  EXPECT_EQ(correct_clocks(2, {{1, 0, -30}}).ns, (std::vector<std::int64_t>{0, -30}));
}

TEST(Clocks, AClockIsPutRightThroughAnother) {
  const auto c = correct_clocks(3, {{0, 1, 10}, {1, 0, 10}, {1, 2, -500}, {2, 1, 520}});
  EXPECT_EQ(most_broken(c, {{0, 1, 10}, {1, 0, 10}, {1, 2, -500}, {2, 1, 520}}), 0);
  EXPECT_EQ(c.conflict_ns, 0);
  EXPECT_EQ(c.ns[1], 0);
  EXPECT_EQ(c.ns[2], 510);
}

TEST(Clocks, BoundsThatContradictEachOtherAreBrokenByTheLeast) {
  // Both ways seem to take less than no time: -30 and -50 can at best be -40 each.
  const std::vector<clock_bound> bounds{{0, 1, -30}, {1, 0, -50}};
  const auto c = correct_clocks(2, bounds);
  EXPECT_EQ(c.conflict_ns, 40);
  EXPECT_EQ(most_broken(c, bounds), 40);
}

TEST(Clocks, ABoundOnOneClockAloneSaysNothing) {
  const auto c = correct_clocks(2, {{1, 1, -5}});
  EXPECT_EQ(c.ns, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(c.conflict_ns, 0);
}

TEST(Clocks, WhateverTrueClocksWereMisreadAsIsCorrected) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const int clocks = 2 + static_cast<int>(random() % 9);
    const std::int64_t most_error = std::int64_t{1} << (random() % 48);
    std::vector<std::int64_t> errors{0};
    while (static_cast<int>(errors.size()) < clocks)
      errors.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * most_error)) - most_error);
    std::vector<clock_bound> bounds;
    for (auto count = random() % 60; count > 0; --count) {
      const auto a = random() % static_cast<std::uint64_t>(clocks);
      const auto b = random() % static_cast<std::uint64_t>(clocks);
      const auto latency = static_cast<std::int64_t>(random() % 1'000'000);
      bounds.push_back({static_cast<int>(a), static_cast<int>(b), latency + errors[b] - errors[a]});
    }
    const auto c = correct_clocks(clocks, bounds);
    EXPECT_EQ(c.conflict_ns, 0);
    EXPECT_EQ(most_broken(c, bounds), 0);
    EXPECT_EQ(c.ns[0], 0);
  }
}

TEST(Clocks, NoCorrectionsBreakContradictionsByLess) {
  std::mt19937_64 random(12);
  int contradicted = 0;
  for (int round = 0; round < 300; ++round) {
    const int clocks = 2 + static_cast<int>(random() % 4);
    std::vector<clock_bound> bounds;
    for (auto count = 2 + random() % 12; count > 0; --count)
      bounds.push_back({static_cast<int>(random() % static_cast<std::uint64_t>(clocks)),
                        static_cast<int>(random() % static_cast<std::uint64_t>(clocks)),
                        static_cast<std::int64_t>(random() % 2000) - 1000});
    std::erase_if(bounds, [](const auto& b) { return b.early == b.late; });
    const auto c = correct_clocks(clocks, bounds);
    EXPECT_LE(most_broken(c, bounds), c.conflict_ns);
    if (c.conflict_ns == 0) continue;
    ++contradicted;
    // With one less the same bounds must still contradict each other.
    auto relaxed = bounds;
    for (auto& b : relaxed)
      b.slack_ns += c.conflict_ns - 1;
    EXPECT_GT(correct_clocks(clocks, relaxed).conflict_ns, 0);
  }
  EXPECT_GT(contradicted, 50);
}

} // namespace
} // namespace penstock::actors
