// Profiles that no quiet machine measures, and those that one may.
#include "planner/profile/doubts.hpp"
#include "tests/planner/profile/example_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct taken {
  std::int64_t samples;
  int threads;
  double seconds;
  double spread = 0;
};

std::vector<doubt> doubts_among(const std::vector<taken>& all) {
  profile p;
  p.layers = {{.name = "a"}};
  for (const auto& t : all)
    p.measurements.push_back({.samples = t.samples,
                              .threads = t.threads,
                              .layers = {{.forward_seconds = t.seconds / 3, .backward_seconds = 2 * t.seconds / 3}},
                              .update_seconds = {},
                              .spread = t.spread});
  return doubts_of(p);
}

TEST(Doubts, AreNoneAboutAProfileThatMayBe) {
  EXPECT_THAT(doubts_among({{4, 1, 0.10}, {8, 1, 0.18}, {16, 1, 0.36}, {32, 1, 0.80}}), IsEmpty());
  EXPECT_THAT(doubts_among({{32, 1, 0.80}, {32, 2, 0.41, 0.2}}), IsEmpty());
  EXPECT_THAT(doubts_among({{4, 1, 0.01}, {8, 1, 0.0095}}), IsEmpty()) << "fixed costs";
  EXPECT_THAT(doubts_of(example_profile()), IsEmpty());
}

TEST(Doubts, AreAboutABatchThatTakesFarMoreThanItsShare) {
  const auto found = doubts_among({{16, 2, 0.1}, {8, 2, 0.05}, {32, 2, 0.31}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "32 samples take 3.1 times as long as 16, with 2 threads");
  EXPECT_THAT(found[0].measurements, ElementsAre(0U, 2U));
}

TEST(Doubts, AreAboutALargerBatchThatTakesLess) {
  const auto found = doubts_among({{16, 1, 0.3}, {32, 1, 0.2}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "32 samples take less time than 16, with 1 thread");
}

TEST(Doubts, AreAboutThreadsFasterThanTheirNumberAndSlowerThanFewer) {
  auto found = doubts_among({{32, 1, 0.6}, {32, 2, 0.1}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "2 threads are 6.0 times as fast as 1, at 32 samples");
  found = doubts_among({{32, 1, 0.1}, {32, 2, 0.4}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "2 threads are 4.0 times as slow as 1, at 32 samples");
}

TEST(Doubts, AreAboutRepeatsThatDiffer) {
  const auto found = doubts_among({{32, 1, 0.6, 0.75}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "repeats of 32 samples with 1 thread differ by 75%");
  EXPECT_THAT(found[0].measurements, ElementsAre(0U));
}

TEST(Doubts, StayInTheProfilesFile) {
  auto p = example_profile();
  p.doubts = {"32 samples take 3.1 times as long as 16, with 2 threads", "a \"second\" one"};
  p.measurements[1].spread = 0.25;
  const auto back = profile_from_json(to_json(p), "p.json");
  EXPECT_EQ(back.doubts, p.doubts);
  EXPECT_EQ(back.measurements[1].spread, 0.25);
  EXPECT_EQ(back.measurements[0].spread, 0);
  EXPECT_EQ(to_json(back), to_json(p));
}

} // namespace
} // namespace penstock::planner
