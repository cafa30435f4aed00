// The cost model against figures worked out by hand.
#include "planner/search/stage_cost.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/search/brute_force.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace penstock::planner::testing {
namespace {

/// Two layers, 1 + 2 and 2 + 4 seconds; 12 and 0 bytes of weights; 6 bytes between them.
profile two_layers() {
  auto p = chain_profile({{.forward_seconds = 1,
                           .backward_seconds = 2,
                           .accumulate_seconds = 0.4,
                           .output_bytes = 6,
                           .kept_bytes = 10,
                           .workspace_bytes = 3},
                          {.forward_seconds = 2, .backward_seconds = 4, .kept_bytes = 20, .workspace_bytes = 5}},
                         {12, 0});
  p.input_bytes_per_sample = 4;
  p.measurements[0].update_seconds = {0.5, 0.25};
  return p;
}

candidate partition(const std::vector<int>& states, const std::vector<std::vector<int>>& devices) {
  candidate c;
  for (std::size_t s = 0; s < devices.size(); ++s)
    c.stages.push_back({.from_state = states[s], .to_state = states[s + 1], .devices = devices[s]});
  return c;
}

double seconds_of(candidate c, const profile& p, const cluster& on, const search_request& request) {
  const layer_graph graph(p);
  stage_cost(p, graph, on, request).complete(c);
  return c.seconds;
}

TEST(StageCost, HidesTheAllReduceBehindTheBackwardThatFeedsItHoweverManyAreInFlight) {
  const auto p = two_layers();
  const search_request request;
  // A ring of two moves 2 (2 - 1) / 2 x 12 = 12 bytes each way; stage 0: 3 + 0.5 on two replicas, stage 1: 6.25.
  const auto split = partition({0, 1, 2}, {{0, 1}, {2}});
  EXPECT_DOUBLE_EQ(seconds_of(split, p, flat_cluster(3, 1000), request), 6.25);
  EXPECT_DOUBLE_EQ(seconds_of(split, p, flat_cluster(3, 0.8), request), 2 * 6 / 0.8); // the link, both ways
  EXPECT_DOUBLE_EQ(seconds_of(split, p, flat_cluster(3, 100, 8), request), 8.81);     // 1 + (12 / 100 + 2 x 8) + 0.5
}

TEST(StageCost, ALoneMinibatchHidesTheAllReduceBehindItsBackwardOnly) {
  const auto p = two_layers();
  const search_request request;
  const auto both = partition({0, 2}, {{0, 1}});
  // f = 3, b = 6, u = 0.75, a = 12 / bandwidth.
  EXPECT_DOUBLE_EQ(seconds_of(both, p, flat_cluster(2, 100), request), 9.75 / 2);
  EXPECT_DOUBLE_EQ(seconds_of(both, p, flat_cluster(2, 1), request), (3 + 12 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(seconds_of(partition({0, 2}, {{0}}), p, flat_cluster(1, 1), request), 9.75);
}

TEST(StageCost, SharesUpdateAndAllReduceOverAMinibatch) {
  const auto p = two_layers();
  search_request request{.charge = update_charge::every_minibatch, .microbatches = 4};
  const auto both = partition({0, 2}, {{0, 1}});
  // Two micro-batches on each replica, of which one accumulates.
  EXPECT_DOUBLE_EQ(seconds_of(both, p, flat_cluster(2, 100), request), (2 * 9.2 + 0.75) / 4);
  EXPECT_DOUBLE_EQ(seconds_of(both, p, flat_cluster(2, 0.25), request), 48.0 / 4);
  request.microbatches = 1;
  EXPECT_DOUBLE_EQ(seconds_of(partition({0, 2}, {{0}}), p, flat_cluster(1, 1), request), 9.75);
}

TEST(StageCost, FlushIsTheClosedFormOfBalancedStages) {
  // (M + N - 1) (F + B): BaPipe's T without links.
  std::vector<layer_cost> layers(4, {.forward_seconds = 1, .backward_seconds = 2});
  const auto p = chain_profile(layers, {});
  const search_request request{.charge = update_charge::flush, .microbatches = 7};
  const auto straight = partition({0, 1, 2, 3, 4}, {{0}, {1}, {2}, {3}});
  EXPECT_DOUBLE_EQ(seconds_of(straight, p, flat_cluster(4, 1), request), (7 + 4 - 1) * 3);
  // One stage of three replicas: three rounds.
  EXPECT_DOUBLE_EQ(seconds_of(partition({0, 4}, {{0, 1, 2}}), p, flat_cluster(3, 1), request), 3 * 12);
}

TEST(StageCost, FlushPaysForTransfersAndWhatTheAllReduceLeaves) {
  const auto p = two_layers();
  const search_request request{.charge = update_charge::flush, .microbatches = 3};
  // Stage 0: two rounds of 3.2; stage 1: three of 6. Link: 2 (0.1 + 6 / 2) to fill and drain, period 6.
  const auto split = partition({0, 1, 2}, {{0, 1}, {2}});
  const auto sum = 3.2 + 6 + 2 * (0.1 + 3);
  // The all-reduce takes 12 / 2 + 2 x 0.1, of which b = 2.2 hides some; the update 0.5.
  EXPECT_DOUBLE_EQ(seconds_of(split, p, flat_cluster(3, 2, 0.1), request), sum + 2 * 6 + (6.2 - 2.2 + 0.5));
  const auto both = partition({0, 2}, {{0, 1}});
  EXPECT_DOUBLE_EQ(seconds_of(both, p, flat_cluster(2, 1), request), 2 * 9.2 + (12 - 6.2) + 0.75);
}

TEST(StageCost, ALinksPeriodIsBothDirectionsOnTheBusiestOfItsDevices) {
  const auto p = two_layers();
  const layer_graph graph(p);
  const search_request request;
  const auto period = [&](const cluster& on, const std::vector<int>& a, const std::vector<int>& b) {
    return stage_cost(p, graph, on, request).link(a, b).period_per_byte;
  };
  auto on = flat_cluster(6, 4);
  EXPECT_DOUBLE_EQ(period(on, {0}, {1}), 2 / 4.0);
  EXPECT_DOUBLE_EQ(period(on, {0, 1}, {2, 3, 4}), 2 / (4.0 * 2));
  on.levels[0].shared = true;
  EXPECT_DOUBLE_EQ(period(on, {0, 1}, {2, 3, 4}), 2 / 4.0); // every message over the one medium
  // Two groups of three: of the messages to device 3, two in three come from the other group.
  on.levels = {{.group = 3, .bandwidth_bytes_per_s = 40}, {.group = 2, .bandwidth_bytes_per_s = 4}};
  EXPECT_DOUBLE_EQ(period(on, {0, 1, 2}, {3}), 2 / 4.0);
  EXPECT_DOUBLE_EQ(period(on, {1, 2, 3}, {4}), 2 * (2 / 3.0) / 4);
  EXPECT_DOUBLE_EQ(period(on, {0, 1}, {2}), 2 / 40.0);
  EXPECT_DOUBLE_EQ(period(on, {0, 3}, {1, 4}), 2 * 0.5 / 40); // dealt in turn: each stays in its group
}

TEST(StageCost, TakesEachLevelOfAnAllReduceForItself) {
  const auto p = two_layers();
  const layer_graph graph(p);
  auto on = flat_cluster(4, 1);
  // The inner level is late, the outer slow: which decides depends on the bytes.
  on.levels = {{.group = 2, .bandwidth_bytes_per_s = 100, .latency_s = 5}, {.group = 2, .bandwidth_bytes_per_s = 1}};
  const search_request request;
  const auto ring = stage_cost(p, graph, on, request).ring({0, 1, 2, 3});
  for (const double bytes : {1.0, 10.0, 20.0, 100.0, 1e6})
    EXPECT_NEAR(ring.seconds(bytes), all_reduce_seconds(on, {0, 1, 2, 3}, bytes), 1e-9 * bytes);
}

TEST(StageCost, CountsCreditsByTheSchedule) {
  const auto p = two_layers();
  const layer_graph graph(p);
  const auto on = flat_cluster(4, 1);
  search_request request;
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(1, 3), 4);
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(15, 1), 2);
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(4, 0), 1);
  request = {.charge = update_charge::flush, .microbatches = 5};
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(1, 3), 4);
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(1, 9), 5); // no more than there are
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(2, 9), 3);
  request.whole_minibatch_in_flight = true;
  EXPECT_EQ(stage_cost(p, graph, on, request).in_flight(2, 0), 3);
  request = {.charge = update_charge::every_minibatch, .microbatches = 3};
  const stage_cost two_buffers(p, graph, on, request);
  EXPECT_EQ(two_buffers.in_flight(1, 4), 5);
  EXPECT_TRUE(two_buffers.admits(1, 4));
  EXPECT_FALSE(two_buffers.admits(1, 5)); // 2bw would be refused: M >= 4
}

TEST(StageCost, AddsUpTheMemoryOfAReplica) {
  const auto p = two_layers();
  const layer_graph graph(p);
  auto on = flat_cluster(2, 1);
  search_request request{.memory = {.optimizer_copies = 2, .gradient_sets = 1}};
  const auto bytes = [&](int from, int to, std::int64_t k, bool recompute) {
    const stage_cost model(p, graph, on, request);
    return model.memory_bytes(model.loads(0).between(from, to), k, {.recompute = recompute});
  };
  // Weights 12 x (2 versions + 1 + 2), kept 2 x 10, workspace 3, output 6; the model's input is nobody's.
  EXPECT_EQ(bytes(0, 1, 2, false), 12 * 5 + 20 + 3 + 6);
  // One kept set instead.
  EXPECT_EQ(bytes(0, 1, 2, true), 12 * 5 + 10 + 3 + 6);
  EXPECT_EQ(bytes(0, 2, 1, false), 12 * 4 + 30 + 5);
  // No weights, kept 20 each, workspace 5; an input of 6 in transit and a copy of it each.
  EXPECT_EQ(bytes(1, 2, 2, false), 40 + 5 + 6 + 12);
  EXPECT_EQ(bytes(1, 2, 2, true), 20 + 5 + 6 + 12);
  request.memory.versions_follow_in_flight = false;
  request.memory.versions = 2;
  EXPECT_EQ(bytes(0, 1, 7, false), 12 * 5 + 70 + 3 + 6);
  EXPECT_EQ(bytes(1, 2, 7, false), 140 + 5 + 6 + 42);
  on.levels[0].by_reference = true; // no copies
  EXPECT_EQ(bytes(1, 2, 7, false), 140 + 5 + 6);
  request.errs = estimate::hopeful; // one version, one gradient set, no workspace, nothing in transit
  EXPECT_EQ(bytes(0, 1, 7, false), 12 * 4 + 70);
}

TEST(StageCost, RecomputesOnlyWhereMemoryAsks) {
  const auto p = two_layers();
  const layer_graph graph(p);
  search_request request;
  const auto complete = [&](double memory, bool allow) {
    auto on = flat_cluster(2, 1000, 0, memory);
    request.allow_recompute = allow;
    auto c = partition({0, 1, 2}, {{0}, {1}});
    stage_cost(p, graph, on, request).complete(c);
    return c;
  };
  // Stage 0 with K = 2 and one optimizer copy: 12 x 4 + 20 + 3 + 6 = 77, or 67.
  EXPECT_FALSE(complete(77, true).stages[0].recompute);
  EXPECT_TRUE(complete(76, true).stages[0].recompute);
  EXPECT_DOUBLE_EQ(complete(76, true).seconds, 6.25);
  EXPECT_EQ(complete(76, false).seconds, std::numeric_limits<double>::infinity());
  EXPECT_EQ(complete(66, true).seconds, std::numeric_limits<double>::infinity());
  const auto on = flat_cluster(2, 1000, 0, 65);
  const stage_cost model(p, graph, on, request);
  request.allow_recompute = true;
  EXPECT_EQ(model.excess_bytes(complete(65, true)), 2);
  EXPECT_EQ(model.most_in_flight(model.loads(0).between(1, 2), 0, {}), 2); // 5 + 6 + 2 x 26 = 63
}

TEST(StageCost, KnowsTheLargestCreditThatFitsExactly) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto i = random_instance(seed);
    const layer_graph graph(i.model, i.together);
    const stage_cost model(i.model, graph, i.on, i.request);
    const auto load = model.loads(0).between(0, graph.states() - 1);
    const auto limit = model.memory_limit(0);
    if (limit == 0) continue;
    for (const bool recompute : {false, true}) {
      const auto most = model.most_in_flight(load, 0, {.recompute = recompute});
      if (most > 0) {
        EXPECT_LE(model.memory_bytes(load, most, {.recompute = recompute}), limit);
      }
      if (most < 1'000'000) {
        EXPECT_GT(model.memory_bytes(load, most + 1, {.recompute = recompute}), limit);
      }
    }
  }
}

TEST(StageCost, TypesHaveTheirSpeedOrTheirOwnProfile) {
  const auto p = two_layers();
  auto own = two_layers();
  own.measurements[0].layers[1].forward_seconds = 7;
  const layer_graph graph(p);
  auto on = flat_cluster(3, 1000);
  on.devices = {{.name = "a"}, {.name = "b", .speed = 2}, {.name = "c", .speed = 5}};
  on.devices[2].own_profile = std::make_shared<const profile>(own);
  const search_request request;
  const stage_cost model(p, graph, on, request);
  EXPECT_DOUBLE_EQ(model.loads(0).between(0, 2).forward_seconds, 3);
  EXPECT_DOUBLE_EQ(model.loads(1).between(0, 2).forward_seconds, 1.5);
  EXPECT_DOUBLE_EQ(model.loads(2).between(0, 2).forward_seconds, 8);
  own.layers.pop_back();
  own.measurements[0].layers.pop_back();
  own.measurements[0].update_seconds.pop_back();
  on.devices[2].own_profile = std::make_shared<const profile>(own);
  EXPECT_EQ(refusal_of([&] { stage_cost(p, graph, on, request); }),
            "the profile of device type 'c' has 1 layers, wanted the model's 2");
}

TEST(StageCost, RefusesRequestsThatMakeNoSense) {
  const auto p = two_layers();
  const layer_graph graph(p);
  const auto on = flat_cluster(2, 1);
  const auto refusal = [&](const search_request& r) { return refusal_of([&] { stage_cost(p, graph, on, r); }); };
  EXPECT_EQ(refusal({.microbatches = 0}), "the number of micro-batches is 0, wanted at least 1");
  EXPECT_EQ(refusal({.microbatches = 2}),
            "the number of micro-batches is 2, wanted 1 where an update follows every group of minibatches");
  EXPECT_NE(refusal({.samples = 0}), "");
  EXPECT_NE(refusal({.samples = std::numeric_limits<double>::quiet_NaN()}), "");
  EXPECT_EQ(refusal({.stages = -1}), "the number of stages is -1, wanted at least 0");
  EXPECT_NE(refusal({.memory = {.optimizer_copies = -1}}), "");
  EXPECT_NE(refusal({.memory = {.versions = 0}}), "");
}

} // namespace
} // namespace penstock::planner::testing
