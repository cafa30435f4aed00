// Golden curves, ties, noise, end states, and what the parser refuses.
#include "actors/freeze/freeze_policies.hpp"
#include "kernels/check.hpp"
#include "tests/freeze/seen.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::actors {
namespace {

using test::seen;

std::vector<int> curve(double alpha, int units, int intervals) {
  std::vector<int> depths;
  for (int t = 1; t <= intervals; ++t)
    depths.push_back(geometric_depth(alpha, units, t));
  return depths;
}

std::string refusal(std::string_view text) {
  try {
    parse_freeze_policy(text);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

TEST(SchedulePolicy, FollowsPipeTransformersTableOfTwelveLayers) {
  EXPECT_EQ(curve(0.07, 12, 9), (std::vector{1, 2, 3, 4, 4, 5, 5, 6, 6}));
  EXPECT_EQ(curve(1.0 / 5, 12, 9), (std::vector{3, 5, 6, 8, 9, 9, 10, 10, 11}));
  EXPECT_EQ(curve(1.0 / 4, 12, 9), (std::vector{3, 6, 7, 9, 10, 10, 11, 11, 12}));
  EXPECT_EQ(curve(1.0 / 3, 12, 9), (std::vector{4, 7, 9, 10, 11, 11, 12, 12, 12}));
  EXPECT_EQ(curve(2.0 / 5, 12, 9), (std::vector{5, 8, 10, 11, 12, 12, 12, 12, 12}));
  EXPECT_EQ(curve(1.0 / 2, 12, 9), (std::vector{6, 9, 11, 12, 12, 12, 12, 12, 12}));
}

// In exact arithmetic L (1 - (1 - p/q)^T) is a fraction with the denominator q^T.
TEST(SchedulePolicy, RoundsUpWhatExactArithmeticRoundsUp) {
  for (std::int64_t q = 2; q <= 10; ++q)
    for (std::int64_t p = 1; p < q; ++p)
      for (int units = 1; units <= 48; ++units) {
        std::int64_t left = 1, all = 1;
        for (int t = 1; t <= 6; ++t) {
          left *= q - p;
          all *= q;
          const auto exact = (units * (all - left) + all - 1) / all;
          EXPECT_EQ(geometric_depth(static_cast<double>(p) / static_cast<double>(q), units, t), exact)
              << p << "/" << q << " of " << units << ", " << t;
        }
      }
}

TEST(SchedulePolicy, NeverFreezesLessAndEndsWithAll) {
  for (const double alpha : {1e-6, 0.07, 0.5, 0.999999}) {
    int before = 0;
    for (int t = 0; t <= 400; ++t) {
      const int depth = geometric_depth(alpha, 24, t);
      EXPECT_GE(depth, before);
      EXPECT_LE(depth, 24);
      before = depth;
    }
  }
  EXPECT_EQ(geometric_depth(0.07, 24, 1000), 24);
  EXPECT_EQ(geometric_depth(0.5, 24, 0), 0);
}

TEST(GradientNormPolicy, FreezesUpToTheLeastNormAndThatUnitToo) {
  const auto policy = gradient_norm_policy(0.9);
  EXPECT_EQ(policy->depth(seen({5, 4, 3, 9, 9, 9})), 3);
  EXPECT_EQ(policy->depth(seen({1, 4, 3, 9, 9, 9})), 1);
  EXPECT_EQ(policy->depth(seen({0, 0, 3, 2, 9, 9}, 2)), 4) << "frozen units are not looked at";
}

TEST(GradientNormPolicy, TakesTheFirstOfEqualNorms) {
  EXPECT_EQ(gradient_norm_policy(0.9)->depth(seen({5, 2, 2, 2, 9, 9})), 2);
}

TEST(GradientNormPolicy, FreezesNoMoreThanTheFractionOfWhatIsActive) {
  const auto policy = gradient_norm_policy(1.0 / 3);
  const auto last_is_least = [](int depth) { return seen({9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1}, depth); };
  EXPECT_EQ(policy->depth(last_is_least(0)), 4);
  EXPECT_EQ(policy->depth(last_is_least(4)), 7) << "4 + 8/3, rounded up";
  EXPECT_EQ(policy->depth(last_is_least(11)), 12) << "the end: all that may freeze";
  EXPECT_EQ(policy->depth(last_is_least(12)), 12);
}

TEST(GradientNormPolicy, OneNoisyIntervalFreezesNoMoreThanTheFraction) {
  const auto policy = gradient_norm_policy(0.25);
  EXPECT_EQ(policy->depth(seen({5, 5, 5, 5, 5, 5, 5, 1e-9})), 2);
  EXPECT_EQ(policy->depth(seen({HUGE_VAL, not_seen, 5, 4, 4, 5, 5, 5}, 2)), 4);
  EXPECT_EQ(policy->depth(seen({not_seen, HUGE_VAL, not_seen, not_seen}, 1)), 1) << "no norm, no decision";
}

TEST(GradientNormPolicy, PassesOverUnitsThatLearnNothing) {
  EXPECT_EQ(gradient_norm_policy(0.9)->depth(seen({5, not_seen, 3, 9, 9, 9})), 3);
}

TEST(PercentilePolicy, FreezesUpToTheFirstChangeAtTheMedian) {
  const auto policy = percentile_policy(50);
  // Changes 0.1, 0.2, 0.3, 0.4, 0.5.
  const std::vector<double> before{10, 10, 10, 10, 10};
  EXPECT_EQ(policy->depth(seen({9, 8, 7, 6, 5}, 0, before)), 2);
  EXPECT_EQ(policy->depth(seen({9, 8, 7, 6, 5}, 2, before)), 3) << "the median of what is active";
  EXPECT_EQ(policy->depth(seen({11, 12, 13, 14, 15}, 0, before)), 2) << "up or down is the same";
  EXPECT_EQ(percentile_policy(90)->depth(seen({9, 8, 7, 6, 5}, 0, before)), 4);
  EXPECT_EQ(percentile_policy(10)->depth(seen({9, 8, 7, 6, 5}, 0, before)), 1) << "0.14 lies between the first two";
}

TEST(PercentilePolicy, LeavesOneActiveAndFreezesNothingWhereAllChangeAlike) {
  const auto policy = percentile_policy(50);
  EXPECT_EQ(policy->depth(seen({9, 9, 9}, 0, {10, 10, 10})), 0);
  EXPECT_EQ(policy->depth(seen({9, 9, 9}, 2, {10, 10, 10})), 2);
  EXPECT_EQ(policy->depth(seen({9, 9, 9}, 3, {10, 10, 10})), 3);
}

TEST(PercentilePolicy, WaitsForASecondIntervalAndStopsAtAUnitThatHasOne) {
  const auto policy = percentile_policy(50);
  EXPECT_EQ(policy->depth(seen({9, 8, 7})), 0);
  EXPECT_EQ(policy->depth(seen({9, 8, 7}, 0, {not_seen, 8, 10})), 0);
  EXPECT_EQ(policy->depth(seen({9, 8, 7}, 0, {9, 0, 0})), 1) << "from nothing to something is the greatest change";
  EXPECT_EQ(policy->depth(seen({0, 8, 7}, 0, {0, 10, 10})), 1) << "nothing and still nothing is no change";
  auto gap = seen({9.9, not_seen, 7, 6}, 0, {10, not_seen, 10, 10});
  gap.units[1].parameters = 0;
  EXPECT_EQ(policy->depth(gap), 2) << "a unit without parameters is passed over";
}

TEST(FreezePolicies, StayWithinTheUnitsAndAtTheirDepthWhateverIsSeen) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0, 10);
  const std::vector<freeze_policy_ptr> policies{schedule_policy(0.3), gradient_norm_policy(0.3), percentile_policy(30)};
  for (int round = 0; round < 2000; ++round) {
    const auto units = 1 + random() % 9;
    std::vector<double> norms, before;
    for (std::size_t u = 0; u < units; ++u) {
      norms.push_back(random() % 5 == 0 ? not_seen : any(random));
      before.push_back(random() % 5 == 0 ? not_seen : any(random));
    }
    auto s = seen(norms, static_cast<int>(random() % (units + 1)), before);
    s.interval = 1 + static_cast<std::int64_t>(random() % 5);
    for (const auto& policy : policies) {
      const int depth = policy->depth(s);
      EXPECT_GE(depth, policy->reads_gradients() ? s.depth : 0) << policy->text();
      EXPECT_LE(depth, static_cast<int>(units)) << policy->text();
      EXPECT_EQ(policy->depth(s), depth) << "pure";
    }
  }
}

TEST(FreezePolicies, AreReadAndWrittenAsText) {
  EXPECT_EQ(parse_freeze_policy("schedule:alpha=0.25")->text(), "schedule:alpha=0.25");
  EXPECT_EQ(parse_freeze_policy("schedule:alpha=1/4")->text(), "schedule:alpha=0.25");
  EXPECT_FALSE(parse_freeze_policy("schedule:alpha=1/4")->reads_gradients());
  EXPECT_EQ(parse_freeze_policy("gradient-norm:alpha=.5")->text(), "gradient-norm:alpha=0.5");
  EXPECT_EQ(parse_freeze_policy("percentile:50")->text(), "percentile:50");
  EXPECT_EQ(parse_freeze_policy("off"), nullptr);
  const auto again = parse_freeze_policy("schedule:alpha=1/3")->text();
  EXPECT_EQ(parse_freeze_policy(again)->text(), again) << "a log's text is the policy again";
}

TEST(FreezePolicies, RefusalsSayWhatWasFoundAndWhatIsWanted) {
  EXPECT_EQ(refusal("shedule:alpha=0.5"),
            "unknown policy 'shedule' (did you mean 'schedule'?); there are schedule, gradient-norm, percentile, off");
  EXPECT_EQ(refusal(""), "unknown policy ''; there are schedule, gradient-norm, percentile, off");
  EXPECT_EQ(refusal("schedule"), "found 'schedule' without alpha, wanted schedule:alpha=A");
  EXPECT_EQ(refusal("schedule:alpha"), "found 'schedule' without alpha, wanted schedule:alpha=A");
  EXPECT_EQ(refusal("schedule:alpha=0"), "alpha is 0, wanted more than 0 and less than 1");
  EXPECT_EQ(refusal("schedule:alpha=1"), "alpha is 1, wanted more than 0 and less than 1");
  EXPECT_EQ(refusal("gradient-norm:alpha=-0.5"), "alpha is -0.5, wanted more than 0 and less than 1");
  EXPECT_EQ(refusal("gradient-norm:alpha=4/3"), "alpha is 1.3333333333333333, wanted more than 0 and less than 1");
  EXPECT_EQ(refusal("schedule:alpha=nan"), "schedule: alpha is 'nan', wanted a number or a fraction such as 1/3");
  EXPECT_EQ(refusal("schedule:alpha=1/0"), "schedule: alpha is '1/0', wanted a number or a fraction such as 1/3");
  EXPECT_EQ(refusal("schedule:alpha=0.5x"), "schedule: alpha is '0.5x', wanted a number or a fraction such as 1/3");
  EXPECT_EQ(refusal("schedule:alpah=0.5"), "schedule has no setting 'alpah' (did you mean 'alpha'?); it has alpha");
  EXPECT_EQ(refusal("percentile:0"), "the percentile is 0, wanted more than 0 and less than 100");
  EXPECT_EQ(refusal("percentile:100"), "the percentile is 100, wanted more than 0 and less than 100");
  EXPECT_EQ(refusal("percentile"), "percentile: found '', wanted percentile:P with P between 0 and 100");
  EXPECT_EQ(refusal("percentile:P=50"), "percentile: found 'P=50', wanted percentile:P with P between 0 and 100");
  EXPECT_EQ(refusal("off:now"), "found 'off:now', wanted off alone");
}

TEST(FreezePolicies, APluginsOneIsMadeFromWhatStandsBehindItsName) {
  std::string given;
  const std::vector<plugin_freeze_policy> plugins{{"mine", "",
                                                   [&](std::string_view options) {
                                                     given = options;
                                                     if (options == "bad") throw error("no such thing");
                                                     return options == "none" ? nullptr : schedule_policy(0.5);
                                                   },
                                                   "example"}};
  EXPECT_NE(parse_freeze_policy("mine", plugins), nullptr);
  EXPECT_NE(parse_freeze_policy("mine:a=1,b=2:3", plugins), nullptr);
  EXPECT_EQ(given, "a=1,b=2:3");
  const auto refused = [&](const char* text) {
    try {
      parse_freeze_policy(text, plugins);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("mine:bad"), "[plugin] example: freeze policy 'mine': no such thing");
  EXPECT_EQ(refused("mine:none"), "[plugin] example: freeze policy 'mine': its factory gave none");
  EXPECT_EQ(refused("mime"),
            "unknown policy 'mime' (did you mean 'mine'?); there are schedule, gradient-norm, percentile, off, mine");
}

} // namespace
} // namespace penstock::actors
