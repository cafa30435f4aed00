// Every choice of credits is one that the schedule takes.
#include "planner/check_schedule.hpp"
#include "planner/explore/credit_choices.hpp"
#include "planner/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock::planner::testing {
namespace {

using counts = std::vector<std::int64_t>;
using choices = std::vector<counts>;

bool has(const choices& all, const counts& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

TEST(CreditChoices, GoFromTightToDoubledByQuarters) {
  const auto all = credit_choices("1f1b", {1, 1, 1, 1, 1}, 64, 0);
  EXPECT_EQ(all.front(), (counts{5, 4, 3, 2, 1}));
  EXPECT_TRUE(has(all, {6, 5, 4, 3, 1}));
  EXPECT_TRUE(has(all, {7, 6, 4, 3, 1}));
  EXPECT_TRUE(has(all, {9, 7, 5, 3, 1}));
}

TEST(CreditChoices, FollowTheLinkTimeByRuleTwo) {
  EXPECT_TRUE(has(credit_choices("pipedream", {1, 1, 1}, 1, 1.0), full_credits({1, 1, 1}, 1.0)));
  EXPECT_FALSE(has(credit_choices("pipedream", {1, 1, 1}, 1, 0.0), full_credits({1, 1, 1}, 1.0)));
}

TEST(CreditChoices, OfReplicatedStagesLetTheAllReduceHide) {
  EXPECT_EQ(credit_choices("pipedream", {4}, 1, 0), (choices{{1}, {2}}));
  EXPECT_EQ(credit_choices("data-parallel", {4}, 4, 0), (choices{{1}}));
  EXPECT_TRUE(has(credit_choices("pipedream", {2, 2}, 1, 0), {2, 2}));
}

TEST(CreditChoices, OfAFlushAreAtMostAShareOfTheMinibatch) {
  EXPECT_EQ(credit_choices("1f1b", {1, 1, 1, 1}, 2, 0), (choices{{2, 2, 2, 1}}));
  for (const auto& credits : credit_choices("1f1b", {1, 1, 1, 1, 1}, 6, 2))
    EXPECT_LE(*std::max_element(credits.begin(), credits.end()), 6);
}

TEST(CreditChoices, OfASplitBackwardAreThoseOfItsSchedule) {
  EXPECT_EQ(credit_choices("zb-h1", {1, 1, 1}, 8, 1), (choices{{3, 2, 1}}));
  EXPECT_EQ(credit_choices("zb-h2", {1, 1, 1}, 8, 1), (choices{{5, 3, 1}}));
}

TEST(CreditChoices, OfFixedSchedulesAreOne) {
  EXPECT_EQ(credit_choices("gpipe", {2, 1}, 8, 3), (choices{{4, 8}}));
  EXPECT_EQ(credit_choices("model-parallel", {1, 1}, 8, 3), (choices{{1, 1}}));
}

TEST(CreditChoices, OfTwoBufferedWeightsFitTheMinibatch) {
  EXPECT_EQ(credit_choices("2bw", {1, 1, 1}, 2, 0), (choices{{3, 2, 1}}));
  EXPECT_TRUE(credit_choices("2bw", {1, 1, 1}, 1, 0).empty());
  EXPECT_TRUE(has(credit_choices("2bw", {1, 1, 1}, 4, 0), {5, 3, 1}));
}

TEST(CreditChoices, PassTheCheckerForRandomReplicas) {
  std::mt19937 random(20240611);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int> replicas(static_cast<std::size_t>(pick(1, 5)));
    for (auto& r : replicas)
      r = pick(1, 4);
    for (const std::string name : {"pipedream", "1f1b", "gpipe", "2bw"}) {
      const auto microbatches = name == "pipedream" ? 1 : pick(1, 12);
      for (const auto& credits : credit_choices(name, replicas, microbatches, pick(0, 3))) {
        schedule_request r{.name = name, .replicas = replicas, .microbatches = microbatches, .minibatches = 3};
        r.in_flight = {in_flight_spec::mode::given, credits};
        EXPECT_EQ(check_schedule(resolve_schedule(r)), std::nullopt) << name << " trial " << trial;
      }
    }
  }
}

} // namespace
} // namespace penstock::planner::testing
