// What is left of a pipeline without some of its ranks.
#include "apps/models/registry.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/shrink.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

namespace penstock::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> replicas_of(const actors::placement& p) {
  std::vector<int> replicas;
  for (const auto& stage : p.rank_of)
    replicas.push_back(static_cast<int>(stage.size()));
  return replicas;
}

TEST(Shrink, AStageLosesTheReplicasOfTheRanks) {
  const auto where = actors::place_in_order({3, 1}, 4);
  EXPECT_THAT(replicas_of(without_ranks(where, {1})), ElementsAre(2, 1));
  EXPECT_THAT(replicas_of(without_ranks(where, {1, 2})), ElementsAre(1, 1));
  EXPECT_THAT(replicas_of(without_ranks(where, {3})), ElementsAre(3))
      << "the first stage takes the layers of the second";
  EXPECT_EQ(without_ranks(where, {1, 2}).ranks, 2);
}

TEST(Shrink, ARankOfSeveralStagesTakesThemAllWithIt) {
  const auto where = actors::place_in_order({2, 1, 2}, 3); // ranks 0 0 | 1 | 1 2
  EXPECT_THAT(replicas_of(without_ranks(where, {1})), ElementsAre(2, 1));
  EXPECT_THAT(without_ranks(actors::placement{2, {{1}, {1}}}, {1}).rank_of, ElementsAre(ElementsAre(0), ElementsAre(0)))
      << "rank 0 was idle";
}

TEST(Shrink, AnIdleRankTakesALostOnesPlace) {
  const actors::placement where{4, {{0}, {2}}};
  const auto without_idle = without_ranks(where, {3});
  EXPECT_THAT(without_idle.rank_of, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(without_idle.ranks, 3) << "one is still idle";
  EXPECT_THAT(replicas_of(without_ranks(where, {2})), ElementsAre(1, 1));
  EXPECT_THAT(replicas_of(without_ranks(where, {1, 2})), ElementsAre(1, 1));
  EXPECT_THAT(replicas_of(without_ranks(where, {1, 2, 3})), ElementsAre(1)) << "no idle one is left";
}

TEST(Shrink, LossesFollowEachOther) {
  const auto where = actors::place_in_order({2, 1, 1}, 4);
  EXPECT_THAT(replicas_of(without_losses(where, {{2}, {1}})), ElementsAre(1, 1)) << "ranks 2 and 1 of four";
  EXPECT_THAT(replicas_of(without_losses(where, {{1}, {1}})), ElementsAre(1, 1)) << "ranks 1 and 2 of four";
  EXPECT_THAT(replicas_of(without_losses(where, {{1}, {2}})), ElementsAre(1, 1)) << "ranks 1 and 3 of four";
  EXPECT_EQ(processes_before({{2}, {1, 3}}, 2), 5);
  EXPECT_EQ(text_of({{2}, {1, 3}}), "rank 2, then ranks 1, 3");
}

TEST(Shrink, CutsAreKeptOnlyWhereTheStagesAreAndAListOfCreditsNever) {
  actors::pipeline_request run;
  run.replicas = {2, 1};
  run.cuts = {4};
  run.recompute = {true, false};
  run.in_flight = planner::parse_in_flight("3,1");
  auto fewer_replicas = run;
  shrink_pipeline(actors::place_in_order({1, 1}, 2), fewer_replicas);
  EXPECT_THAT(fewer_replicas.replicas, ElementsAre(1, 1));
  EXPECT_THAT(fewer_replicas.ranks, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(fewer_replicas.cuts, ElementsAre(4));
  EXPECT_THAT(fewer_replicas.recompute, ElementsAre(true, false));
  EXPECT_THAT(fewer_replicas.in_flight.given, IsEmpty());
  auto fewer_stages = run;
  shrink_pipeline(actors::place_in_order({2}, 2), fewer_stages);
  EXPECT_THAT(fewer_stages.cuts, IsEmpty());
  EXPECT_THAT(fewer_stages.recompute, IsEmpty());
}

TEST(Shrink, WhatIsFrozenStaysSo) {
  const auto net = find_model("lenet").build({.image_size = 28});
  planner::execution_plan p;
  p.processes = 3;
  p.first_active = "conv2"; // as a file says it
  p.ahead = 5;
  p.stages = {{.first_layer = "conv1", .last_layer = "pool1", .ranks = {0}},
              {.first_layer = "conv2", .last_layer = "flatten", .ranks = {1}},
              {.first_layer = "fc1", .last_layer = "fc3", .ranks = {2}}};
  for (const int lost : {1, 2}) {
    auto fewer = p;
    leave_out_lost(fewer, {{lost}}, 2, net);
    ASSERT_EQ(fewer.stages.size(), 2U);
    const auto settled = actors::settle_plan(fewer, net, {2, 0});
    EXPECT_EQ(settled->first_active, "conv2");
    EXPECT_EQ(settled->frozen_until, 3);
  }
}

TEST(Shrink, WhatIsNoListOfLossesIsRefused) {
  ::setenv("PENSTOCK_LOST", "2;3,1", 1);
  EXPECT_EQ(lost_before(), (losses{{2}, {1, 3}}));
  ::setenv("PENSTOCK_LOST", "2;none", 1);
  EXPECT_THROW(lost_before(), usage_error);
  ::setenv("PENSTOCK_LOST", "0", 1);
  EXPECT_THROW(lost_before(), usage_error) << "rank 0 is never done without";
  ::unsetenv("PENSTOCK_LOST");
  EXPECT_THAT(lost_before(), IsEmpty());
}

TEST(Shrink, HostsHaveTheNumberOfTheirFirstRank) {
  const auto on = [](const char* host) { return transport::member{.host = host, .host_identity = host}; };
  EXPECT_THAT(hosts_of({on("a"), on("b"), on("a"), on("b")}), ElementsAre(0, 1, 0, 1));
}

} // namespace
} // namespace penstock::apps
