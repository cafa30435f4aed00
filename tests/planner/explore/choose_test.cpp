// Who wins, and what is said about the others.
#include "planner/explore/choose.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

struct outcome {
  std::string schedule;
  std::vector<int> replicas;
  double seconds = 1;
  double bytes = 1e9;
  bool synchronous = true;
  std::vector<std::int64_t> in_flight{};
  std::string origin = "flat";
};

trial tried(const outcome& o) {
  trial t;
  t.origin = o.origin;
  t.synchronous = o.synchronous;
  t.peak_bytes = o.bytes;
  t.made.schedule = o.schedule;
  t.made.microbatches = 1;
  for (std::size_t s = 0; s < o.replicas.size(); ++s) {
    planned_stage stage;
    stage.first_layer = stage.last_layer = "layer" + std::to_string(s);
    stage.replicas = o.replicas[s];
    stage.in_flight = o.in_flight.empty() ? 1 : o.in_flight[s];
    t.devices += o.replicas[s];
    t.made.stages.push_back(stage);
  }
  t.made.predicted = prediction{};
  t.made.predicted->step_seconds = o.seconds;
  t.made.predicted->speedup_over_one_device = 4 / o.seconds;
  t.made.predicted->binding = "compute of stage 0";
  return t;
}

trial too_large(const outcome& o) {
  auto t = tried(o);
  t.missing_bytes = 1;
  t.refused = "misses 1 B on stage 0";
  return t;
}

TEST(Choose, TakesTheFastestThatRuns) {
  EXPECT_EQ(winner_of({tried({"1f1b", {1, 1}, 2}), too_large({"gpipe", {1, 1}, 1}), tried({"pipedream", {1, 1}, 1.5})}),
            2);
  EXPECT_EQ(winner_of({too_large({"gpipe", {1, 1}})}), -1);
  EXPECT_EQ(winner_of({}), -1);
}

TEST(Choose, BreaksTiesByDevicesStalenessAndMemory) {
  EXPECT_EQ(winner_of({tried({"1f1b", {2, 1}, 1}), tried({"1f1b", {1, 1}, 1.004})}), 1);
  EXPECT_EQ(winner_of({tried({"1f1b", {2, 1}, 1}), tried({"1f1b", {1, 1}, 1.006})}), 0);
  EXPECT_EQ(winner_of({tried({"pipedream", {1, 1}, 1, 1e9, false}), tried({"1f1b", {1, 1}, 1.004, 2e9})}), 1);
  EXPECT_EQ(winner_of({tried({"1f1b", {1, 1}, 1, 2e9}), tried({"1f1b", {1, 1}, 1.004, 1e9})}), 1);
  EXPECT_EQ(winner_of({tried({"pipedream", {1, 1}, 1, 1e9, false, {3, 1}}),
                       tried({"pipedream", {1, 1}, 1.004, 1e9, false, {2, 1}})}),
            1)
      << "the fullest device may be another stage's: what is in flight is staleness all the same";
}

TEST(Choose, SaysWhyTheOthersLost) {
  const std::vector<trial> trials{tried({"1f1b", {1, 1}, 1}), tried({"pipedream", {1, 1}, 1.002, 1e9, false}),
                                  tried({"gpipe", {1, 1}, 1.12}), tried({"1f1b", {2, 1}, 1.001}),
                                  too_large({"2bw", {1, 1}, 0.5})};
  const auto p = explained(trials, winner_of(trials), 20);
  ASSERT_EQ(p.considered.size(), 5U);
  EXPECT_EQ(p.considered[0].rejected, "");
  EXPECT_EQ(p.considered[1].rejected, "as fast, on 3 devices instead of 2");
  EXPECT_EQ(p.considered[2].rejected, "as fast, but stale");
  EXPECT_EQ(p.considered[3].rejected, "12% slower");
  EXPECT_EQ(p.considered[4].rejected, "misses 1 B on stage 0");
  ASSERT_TRUE(p.runner_up);
  EXPECT_EQ(p.runner_up->text, p.considered[1].text);
}

TEST(Choose, ListsAPartitionOnceWithItsBestCredits) {
  const std::vector<trial> trials{
      tried({"1f1b", {1, 1}, 1, 1e9, true, {3, 1}}), tried({"1f1b", {1, 1}, 1.001, 0.5e9, true, {2, 1}}),
      tried({"gpipe", {1, 1}, 2, 1e9, true, {5, 5}}), tried({"gpipe", {1, 1}, 3, 1e9, true, {4, 4}})};
  const auto p = explained(trials, winner_of(trials), 20);
  ASSERT_EQ(p.considered.size(), 2U);
  EXPECT_EQ(p.considered[0].in_flight, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(p.considered[1].in_flight, (std::vector<std::int64_t>{5, 5}));
}

TEST(Choose, KeepsTheBestOfEveryScheduleAndOriginBeyondTheRows) {
  std::vector<trial> trials;
  for (int i = 0; i < 10; ++i)
    trials.push_back(tried({"1f1b", {1, i + 1}, 1.0 + i}));
  trials.push_back(tried({"gpipe", {1, 1}, 30}));
  trials.push_back(tried({"gpipe", {1, 2}, 31}));
  trials.push_back(tried({"1f1b", {2, 2}, 40, 1e9, true, {}, "hierarchical"}));
  const auto p = explained(trials, winner_of(trials), 3);
  ASSERT_EQ(p.considered.size(), 5U);
  EXPECT_EQ(p.considered[3].schedule, "gpipe");
  EXPECT_EQ(p.considered[4].origin, "hierarchical");
}

TEST(Choose, SaysWhenDataParallelismWins) {
  const std::vector<trial> trials{tried({"data-parallel", {4}, 1}), tried({"1f1b", {1, 1, 1, 1}, 1.5})};
  const auto reason = explained(trials, winner_of(trials), 20).reason;
  EXPECT_EQ(reason, "data parallelism: 4 replicas of the whole model, 4.00x one device, 50% faster than the best "
                    "pipeline (layer0 x1 | layer1 x1 | layer2 x1 | layer3 x1, 1f1b); compute of stage 0 binds");
}

trial parting(const outcome& o) {
  auto t = tried(o);
  t.parts = "a..b";
  return t;
}

TEST(Choose, LeavesAsideWhatPartsTheModelsGroupsForLittle) {
  EXPECT_EQ(winner_of({parting({"1f1b", {1, 1}, 1}), tried({"gpipe", {1, 1}, 1.15})}), 1);
  EXPECT_EQ(winner_of({parting({"1f1b", {1, 1}, 1}), tried({"gpipe", {1, 1}, 1.16})}), 0);
  EXPECT_EQ(winner_of({parting({"1f1b", {1, 1}, 1}), too_large({"gpipe", {1, 1}, 0.5})}), 0);
  EXPECT_EQ(winner_of({parting({"1f1b", {1, 1}, 2}), tried({"gpipe", {1, 1}, 1})}), 1);
  EXPECT_EQ(winner_of({parting({"1f1b", {1}, 1.001}), tried({"gpipe", {1, 1}, 1})}), 1) << "not even for a device less";

  std::vector<trial> trials{tried({"1f1b", {1, 1}, 1.1}), tried({"1f1b", {1, 2}, 1.3}), parting({"1f1b", {4, 4}, 1.4})};
  for (int i = 0; i < 5; ++i)
    trials.push_back(parting({"1f1b", {2, i + 1}, 1 + 0.01 * i}));
  const auto p = explained(trials, winner_of(trials), 20);
  std::vector<std::string> why;
  for (const auto& row : p.considered)
    why.push_back(row.rejected);
  EXPECT_EQ(why, (std::vector<std::string>{"", "only 10% faster, and parts a..b", "only 8.9% faster, and parts a..b",
                                           "only 7.8% faster, and parts a..b", "18% slower", "27% slower"}));
  ASSERT_TRUE(p.runner_up);
  EXPECT_EQ(p.runner_up->rejected, "18% slower");
  EXPECT_EQ(contenders(trials, winner_of(trials), 20, 9).size(), 2U);
  trials.front().refused = trials[1].refused = "too large";
  EXPECT_EQ(contenders(trials, winner_of(trials), 20, 9).size(), 6U) << "nothing else runs";
}

TEST(Choose, WritesBytesShort) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(999.9), "1 kB");
  EXPECT_EQ(bytes_text(1.234e9), "1.23 GB");
}

} // namespace
} // namespace penstock::planner::testing
