// What a model keeps together: kept where parting it gains little, parted where it gains much, or where a person says
// so.
#include "planner/explore/explore.hpp"
#include "planner/explore/hints.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace penstock::planner::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// So many layers of a second each, called l0, l1, ..., of which `group` stays together.
profile chain_with(int layers, std::vector<int> group) {
  std::vector<layer_of> all;
  for (int i = 0; i < layers; ++i)
    all.push_back({"l" + std::to_string(i), 1.0 / 3});
  auto p = chain_of(all);
  p.kept_together = {std::move(group)};
  return p;
}

const plan_request in_two{.schedules = {"pipedream"}, .stages = 2, .update_lag = "0"};

TEST(Hints, AreKeptWherePartingGainsLittle) {
  const auto p = chain_with(20, {9, 10}); // 11 and 9 instead of 10 and 10
  const auto best = make_plan(p, flat_cluster(2, 1e12), in_two);
  EXPECT_EQ(parted_group(best, p), "");
  EXPECT_NEAR(best.predicted->step_seconds, 11, 1e-6);
  EXPECT_THAT(best.reason, HasSubstr("; keeps l9..l10 together, as the model has it: a plan that parts it is only 10"));
  const auto parts = [](const plan_summary& row) { return row.rejected.ends_with("% faster, and parts l9..l10"); };
  EXPECT_TRUE(std::any_of(best.considered.begin(), best.considered.end(), parts));
  ASSERT_TRUE(best.runner_up);
  EXPECT_THAT(best.runner_up->rejected, Not(HasSubstr("parts")));
}

TEST(Hints, ArePartedWhereThatGainsMuch) {
  const auto p = chain_with(10, {4, 5}); // 6 and 4 instead of 5 and 5
  const auto best = make_plan(p, flat_cluster(2, 1e12), in_two);
  EXPECT_EQ(describe_stages(best), "l0..l4 x1 | l5..l9 x1");
  EXPECT_EQ(parted_group(best, p), "l4..l5");
  EXPECT_THAT(best.reason, HasSubstr("; parts l4..l5, which the model keeps together: the best plan that parts nothing "
                                     "takes 20% longer"));
}

TEST(Hints, DecideNothingWhereTheFastestPartsNothing) {
  const auto p = chain_with(10, {1, 2});
  const auto best = make_plan(p, flat_cluster(2, 1e12), in_two);
  EXPECT_EQ(describe_stages(best), "l0..l4 x1 | l5..l9 x1");
  EXPECT_THAT(best.reason, Not(HasSubstr("together")));
}

TEST(Hints, GiveWayToWhatAPersonFixes) {
  const auto c = flat_cluster(2, 1e12);
  auto cut = in_two;
  cut.first_layers = {"l10"};
  const auto by_hand = make_plan(chain_with(20, {9, 10}), c, cut);
  EXPECT_EQ(by_hand.stages.at(1).first_layer, "l10");
  EXPECT_THAT(by_hand.reason, Not(HasSubstr("together")));
  auto together = in_two;
  together.keep_together = {"l4..l5"};
  EXPECT_NEAR(make_plan(chain_with(10, {4, 5}), c, together).predicted->step_seconds, 6, 1e-6) << "whatever it costs";
}

TEST(Hints, DoNotStandInTheWayOfTheOnlyPlan) {
  auto all = in_two;
  all.stages = 3;
  auto p = chain_with(4, {0, 1, 2, 3});
  EXPECT_EQ(make_plan(p, flat_cluster(3, 1e12), all).stages.size(), 3U);
  for (std::size_t i = 0; i < p.layers.size(); ++i)
    p.layers[i].weight_bytes = 10;
  auto small = flat_cluster(4, 1e12);
  small.devices.front().memory_bytes = 50; // two layers with their gradients and momentum are too much
  const auto best = make_plan(p, small, {.schedules = {"1f1b"}});
  EXPECT_EQ(best.stages.size(), 4U);
  EXPECT_THAT(best.reason, Not(HasSubstr("together"))) << "there is no other to compare with";
}

TEST(Hints, HoldForAllThatAreHandedOut) {
  const auto p = chain_with(20, {9, 10});
  const auto plans = make_plans(p, flat_cluster(3, 1e12), {.schedules = {"pipedream"}, .update_lag = "0"}, 6);
  EXPECT_GT(plans.size(), 2U);
  for (const auto& made : plans)
    EXPECT_EQ(parted_group(made, p), "") << describe_stages(made);
}

/// The rule itself, on every cut of random chains.
TEST(Hints, AreKeptUnlessAnyOtherCutGainsMoreThanTheirWorth) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    std::vector<layer_of> layers;
    for (int i = 0; i < 8; ++i)
      layers.push_back({"l" + std::to_string(i), 1.0 + static_cast<double>(random() % 9)});
    auto p = chain_of(layers);
    for (int at = 0; at + 1 < 8;) {
      std::vector<int> group(1 + random() % 4);
      std::iota(group.begin(), group.end(), at);
      at += static_cast<int>(group.size());
      if (group.size() > 1 && at <= 8) p.kept_together.push_back(group);
    }
    double whole = 1e9, any = 1e9;
    for (int cut = 1; cut < 8; ++cut) {
      double front = 0, back = 0;
      for (int i = 0; i < 8; ++i)
        (i < cut ? front : back) += 3 * layers[static_cast<std::size_t>(i)].seconds;
      const bool parts = std::any_of(p.kept_together.begin(), p.kept_together.end(),
                                     [&](const auto& g) { return g.front() < cut && g.back() >= cut; });
      any = std::min(any, std::max(front, back));
      if (!parts) whole = std::min(whole, std::max(front, back));
    }
    const auto best = make_plan(p, flat_cluster(2, 1e12), in_two);
    const bool keeps = whole <= worth_parting * any;
    EXPECT_NEAR(best.predicted->step_seconds, keeps ? whole : any, 0.005 * any) << round; // of equals the smallest
    EXPECT_EQ(parted_group(best, p).empty(), keeps || whole == any) << round;
  }
}

} // namespace
} // namespace penstock::planner::testing
