// Plans that freeze a prefix: what they are predicted to cost, and which are found.
#include "planner/explore/explore.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using ::testing::HasSubstr;

/// Four layers of 1 s forward and 2 s backward, half of which are the weights' part.
profile four() {
  return chain_of({{"a", 1, 8, 100}, {"b", 1, 8, 100}, {"c", 1, 8, 100}, {"d", 1, 8, 100}});
}

plan two_stages(const std::string& frozen_until, int microbatches = 1) {
  plan p;
  p.schedule = "1f1b";
  p.microbatches = microbatches;
  p.stages = {{.first_layer = "a", .last_layer = "b"}, {.first_layer = "c", .last_layer = "d"}};
  p.first_active = frozen_until;
  return p;
}

TEST(FrozenPlan, StagesInFrontRunAheadAndTheNextOneMakesNoInputGradient) {
  const auto c = flat_cluster(2, 1e12);
  EXPECT_NEAR(predict(two_stages(""), four(), c).predicted->step_seconds, 12, 1e-6);
  const auto p = predict(two_stages("c"), four(), c);
  EXPECT_NEAR(p.predicted->step_seconds, 2 + 1 + 2, 1e-6) << "two forwards, c's weights' part and d's backward";
  EXPECT_EQ(p.frozen_until, 2);
  EXPECT_EQ(p.ahead, 1);
  const auto& frozen = p.predicted->stages[0];
  EXPECT_EQ(frozen.backward_seconds, 0);
  EXPECT_EQ(frozen.memory.weights, 200) << "one version";
  EXPECT_EQ(frozen.memory.gradients + frozen.memory.optimizer_state, 0);
  EXPECT_NEAR(p.predicted->bytes_per_minibatch, 8, 1e-9) << "nothing comes back";
}

TEST(FrozenPlan, AStageThatIsFrozenInPartGoesForwardWithAllOfIt) {
  const auto p = predict(two_stages("b"), four(), flat_cluster(2, 1e12));
  EXPECT_NEAR(p.predicted->step_seconds, 2 + 2 + 4 + 1, 1e-6);
  EXPECT_EQ(p.ahead, 0);
  const auto& first = p.predicted->stages[0];
  EXPECT_EQ(first.memory.weights, 200) << "a's and b's";
  EXPECT_EQ(first.memory.gradients, 100) << "b's";
  EXPECT_EQ(first.memory.optimizer_state, 100);
}

TEST(FrozenPlan, WhatIsAheadCountsInMemory) {
  const auto c = flat_cluster(2, 1e12);
  auto p = two_stages("c", 4);
  p.batch = 4;
  double before = 0;
  for (const std::int64_t ahead : {1, 3, 9}) {
    p.ahead = ahead;
    const auto done = predict(p, four(), c);
    EXPECT_NEAR(done.predicted->step_seconds, 4 * 5, 1e-6) << "the frozen stage is the faster one";
    const auto activations = done.predicted->stages[1].memory.activations;
    EXPECT_GT(activations, before) << ahead;
    before = activations;
  }
}

TEST(FrozenPlan, ANameInsideAStageIsFoundByTheProfilesLayers) {
  EXPECT_EQ(predict(two_stages("b"), four(), flat_cluster(2, 1e12)).frozen_until, 1);
  EXPECT_THAT(refusal_of([] { predict(two_stages("e"), four(), flat_cluster(2, 1e12)); }),
              HasSubstr("no layer of the"));
}

TEST(FrozenSearch, GivesThePrefixWorkersOfItsOwnOrReplicasAsIsFaster) {
  plan_request request{.batch = 1, .schedules = {"pipedream"}, .frozen_until = "d", .ahead = 3};
  auto found = make_plan(four(), flat_cluster(2, 1e12), request);
  EXPECT_EQ(describe_stages(found), "a..d x2, frozen before d") << found.reason;
  EXPECT_NEAR(found.predicted->step_seconds, (4 + 1) / 2.0, 1e-6);
  EXPECT_EQ(found.ahead, 0) << "nothing runs ahead";
  // Over this link the gradients of d alone take 20 s, and activations next to nothing.
  auto heavy = four();
  heavy.layers[3].weight_bytes = 4000;
  found = make_plan(heavy, flat_cluster(2, 200), request);
  EXPECT_EQ(frozen_stages_of(found), 1) << describe_stages(found);
  EXPECT_EQ(found.ahead, 3);
  EXPECT_NEAR(found.predicted->step_seconds, 3, 0.1) << found.reason;
  EXPECT_EQ(found.predicted->stages[0].memory.weights, found.stages[0].last_layer == "c" ? 300 : 200);
}

TEST(FrozenSearch, SpendsWorkersOnReplicasOfWhatIsActive) {
  // Little is left to train: with more samples at once on replicas than stages could be kept busy.
  const auto p = chain_of({{"a", 1, 8, 1}, {"b", 1, 8, 1}, {"c", 1, 8, 1}, {"head", 1, 8, 1}}, 16);
  plan_request request{.batch = 16, .schedules = {"1f1b", "data-parallel"}, .microbatches = {4}};
  const auto all = make_plan(p, flat_cluster(4, 1e12), request);
  request.frozen_until = "head";
  const auto frozen = make_plan(p, flat_cluster(4, 1e12), request);
  EXPECT_LT(frozen.predicted->step_seconds, all.predicted->step_seconds / 1.9) << describe_stages(frozen);
  EXPECT_EQ(frozen.batch, all.batch);
}

/// b and c both read a; d joins them. The profile's order is a b c d.
TEST(FrozenSearch, PutsNoFrozenLayerBehindAnActiveOne) {
  auto p = four();
  p.layers[2].inputs = {0};
  p.layers[3].inputs = {1, 2};
  plan_request request{.batch = 1, .schedules = {"pipedream"}, .frozen_until = "c"};
  for (const int devices : {2, 3, 4}) {
    const auto found = make_plan(p, flat_cluster(devices, 1e12), request);
    EXPECT_EQ(found.first_active, "c");
    EXPECT_EQ(found.layer_order, (std::vector<std::string>{"a", "b", "c", "d"}));
  }
}

/// b and c both read the frozen a, d joins them; the cheap c may share a's stage while b has one of its own.
TEST(FrozenSearch, TheFirstActiveLayerIsThatOfTheOrderThatThePlanRuns) {
  auto p = four();
  p.layers[2].inputs = {0};
  p.layers[3].inputs = {1, 2};
  auto& costs = p.measurements.front().layers;
  costs[0].forward_seconds = 2;
  for (const std::size_t small : {2, 3})
    costs[small].forward_seconds = 0.25, costs[small].backward_seconds = 0.5;
  plan_request request{.batch = 1, .schedules = {"pipedream"}, .replicas = {1, 1}, .frozen_until = "b"};
  const auto found = make_plan(p, flat_cluster(2, 1e12), request);
  ASSERT_EQ(found.layer_order.size(), 4U);
  EXPECT_EQ(found.first_active, found.layer_order[1]);
  EXPECT_EQ(found.layer_order[1], "c") << describe_stages(found);
  EXPECT_NO_THROW(check_plan(found));
}

TEST(FrozenSearch, NothingOfAHalfDuplexLinkIsTakenByGradientsForFrozenStages) {
  auto c = flat_cluster(2, 3);
  c.levels.front().half_duplex = true;
  const auto p = predict(two_stages("c"), four(), c); // 8 bytes: 2.7 s one way; the second stage takes 5 s
  EXPECT_EQ(p.predicted->binding, "compute of stage 1");
}

TEST(FrozenSearch, KeepsInterleavedWorkersFromWhollyFrozenStages) {
  plan_request request{.batch = 8, .schedules = {"interleaved"}, .microbatches = {4}, .frozen_until = "c"};
  const auto p =
      chain_of({{"a", 1, 8, 1}, {"b", 1, 8, 1}, {"c", 1, 8, 1}, {"d", 1, 8, 1}, {"e", 1, 8, 1}, {"f", 1, 8, 1}});
  const auto found = make_plan(p, flat_cluster(2, 1e12), request);
  EXPECT_EQ(frozen_stages_of(found), 0);
  EXPECT_EQ(found.first_active, "c");
}

TEST(FrozenSearch, RefusesWhatCannotBeFrozen) {
  plan_request request{.frozen_until = "e"};
  EXPECT_THAT(refusal_of([&] { make_plan(four(), flat_cluster(2, 1e9), request); }),
              HasSubstr("frozen-until is 'e', which is no layer of 'chain'"));
  auto p = four();
  p.layers[3].weight_bytes = 0;
  request.frozen_until = "d";
  EXPECT_THAT(refusal_of([&] { make_plan(p, flat_cluster(2, 1e9), request); }), HasSubstr("nothing would be left"));
}

} // namespace
} // namespace penstock::planner::testing
