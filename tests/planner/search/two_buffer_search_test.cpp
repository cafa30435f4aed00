// 2BW's formulas worked by hand, and its planner against all equal-replica plans.
#include "planner/search/two_buffer_search.hpp"
#include "tests/planner/search/brute_force.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace penstock::planner::testing {
namespace {

constexpr search_request four_microbatches{.charge = update_charge::every_minibatch,
                                           .microbatches = 4,
                                           .memory = {.versions_follow_in_flight = false, .versions = 2}};

/// Layers of 3 s, 1 s and 2 s; 8 and 6 bytes between them, more kept for backward; 10, 20 and 30 bytes of weights.
profile three_layers() {
  return chain_profile({{.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 8, .kept_bytes = 100},
                        {.forward_seconds = 0.5, .backward_seconds = 0.5, .output_bytes = 6, .kept_bytes = 50},
                        {.forward_seconds = 1, .backward_seconds = 1, .output_bytes = 1, .kept_bytes = 100}},
                       {10, 20, 30});
}

TEST(TwoBufferSeconds, AreTheFormulasWorkedByHand) {
  const auto p = three_layers();
  const layer_graph graph(p);
  const auto on = flat_cluster(4, 8);
  const stage_cost model(p, graph, on, four_microbatches);
  // Both stages: 3 s of compute and 8 bytes there and back, 3 + 2 x 8 / 8 = 5.
  EXPECT_DOUBLE_EQ(two_buffer_seconds(model, {"", {{0, 1, {0}}, {1, 3, {1}}}}), 5);
  // The middle stage pays for both neighbours: 1 + 2 x (8 + 6) / 8 = 4.5; the first 3 + 2 = 5.
  EXPECT_DOUBLE_EQ(two_buffer_seconds(model, {"", {{0, 1, {0}}, {1, 2, {1}}, {2, 3, {2}}}}), 5);
  // Recomputing the first: one forward more.
  EXPECT_DOUBLE_EQ(two_buffer_seconds(model, {"", {{0, 1, {0}, true}, {1, 2, {1}}, {2, 3, {2}}}}), 6);
  // Two replicas each do 2 micro-batches an update; all-reduce of 50 bytes: 50 / 8 / 2 = 3.125 < 5. Together 5 / 2.
  EXPECT_DOUBLE_EQ(two_buffer_seconds(model, {"", {{0, 1, {0, 1}}, {1, 3, {2, 3}}}}), 2.5);
  // Pure data parallelism on 4: 6 s of compute, or 2 x 3 / 4 x 60 / 8 = 11.25 s of all-reduce every micro-batch.
  EXPECT_DOUBLE_EQ(two_buffer_seconds(model, {"", {{0, 3, {0, 1, 2, 3}}}}), 11.25 / 4);
}

TEST(TwoBufferSearch, RecomputesEverywhereOnlyWhereNothingFitsWithout) {
  const auto p = three_layers();
  const layer_graph graph(p);
  auto on = flat_cluster(2, 8);
  auto request = four_microbatches;
  request.allow_recompute = true;
  const auto best_of_two_stages = [&](double memory) {
    on.devices[0].memory_bytes = memory;
    const stage_cost model(p, graph, on, request);
    for (const auto& c : search_two_buffer(model))
      if (c.stages.size() == 2) return c.stages[0].recompute == c.stages[1].recompute ? int{c.stages[0].recompute} : -1;
    return 2; // none
  };
  EXPECT_EQ(best_of_two_stages(0), 0);
  const stage_cost model(p, graph, on, request);
  // Both partitions, each stage at its in-flight count of 2 and 1: what the better of them needs.
  const auto needs = [&](bool recompute) {
    const auto of = [&](int cut) {
      return std::max(model.memory_bytes(model.loads(0).between(0, cut), 2, {.recompute = recompute}),
                      model.memory_bytes(model.loads(0).between(cut, 3), 1, {.recompute = recompute}));
    };
    return std::min(of(1), of(2));
  };
  ASSERT_LT(needs(true), needs(false) - 1);
  EXPECT_EQ(best_of_two_stages(needs(false)), 0);
  EXPECT_EQ(best_of_two_stages(needs(false) - 1), 1);
  EXPECT_EQ(best_of_two_stages(needs(true)), 1);
  EXPECT_EQ(best_of_two_stages(needs(true) - 1), 2);
}

TEST(TwoBufferSearch, ReplicasOfAStageAreNeighboursAndTheLastDevicesAreTheLastStages) {
  const auto p = three_layers();
  const layer_graph graph(p);
  const auto on = flat_cluster(4, 8);
  for (const auto& c : search_two_buffer(stage_cost(p, graph, on, four_microbatches))) {
    std::vector<int> devices;
    for (const auto& s : c.stages)
      devices.insert(devices.end(), s.devices.begin(), s.devices.end());
    EXPECT_EQ(devices, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(c.origin, "2bw");
  }
}

TEST(TwoBufferSearch, RefusesAnotherSchedulesCharges) {
  const auto p = three_layers();
  const layer_graph graph(p);
  const auto on = flat_cluster(4, 8);
  const search_request pipedream;
  EXPECT_THROW(search_two_buffer(stage_cost(p, graph, on, pipedream)), std::invalid_argument);
}

using shape = std::pair<int, int>; // width, depth

/// The least of every shape, over all partitions and the two uniform choices of recomputation: without it first.
std::map<shape, double> least_of_every_shape(const stage_cost& model) {
  std::map<shape, double> least;
  const auto n = model.on().device_count();
  const auto last = model.graph().states() - 1;
  for (int width = 1; width <= n; ++width)
    for (int depth = 1; width * depth <= n; ++depth) {
      if (model.request().use_all_devices && width * depth != n) continue;
      if (model.request().stages > 0 && depth != model.request().stages) continue;
      for (const auto recompute : {false, true}) {
        if (least.count({width, depth}) > 0 || (recompute && !model.request().allow_recompute)) continue;
        const std::function<void(candidate)> extend = [&](candidate c) {
          const auto at = c.stages.empty() ? 0 : c.stages.back().to_state;
          const auto left = depth - static_cast<int>(c.stages.size());
          if (left == 0 && at == last) {
            const auto seconds = two_buffer_seconds(model, c);
            const auto found = least.emplace(shape{width, depth}, seconds).first;
            found->second = std::min(found->second, seconds);
          }
          for (int to = at + 1; to <= last && left > 0; ++to) {
            const auto k = model.in_flight(width, width * (left - 1));
            const auto load = model.loads(0).between(at, to);
            if (!model.admits(width, k) || k > model.most_in_flight(load, 0, {.recompute = recompute})) continue;
            auto more = c;
            more.stages.push_back({at, to, std::vector<int>(static_cast<std::size_t>(width)), recompute, k});
            std::iota(more.stages.back().devices.begin(), more.stages.back().devices.end(), n - left * width);
            extend(more);
          }
        };
        extend({});
      }
    }
  return least;
}

TEST(TwoBufferSearch, IsTheBestOfAllEqualReplicaPlans) {
  int plans = 0, recomputing = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    auto i = random_instance(seed, {.layers = 8, .devices = 6, .is_chain = true});
    if (i.on.devices.size() > 1) continue;
    i.request.charge = update_charge::every_minibatch;
    i.request.update_lag = 0; // of groups of minibatches only
    i.request.microbatches = 1 + static_cast<int>(seed % 12);
    i.request.whole_minibatch_in_flight = false;
    i.request.stages = 0;
    i.request.top = 100;
    const layer_graph graph(i.model, i.together);
    const stage_cost model(i.model, graph, i.on, i.request);
    auto least = least_of_every_shape(model);
    double before = 0;
    for (const auto& c : search_two_buffer(model)) {
      const shape s{static_cast<int>(c.stages[0].devices.size()), static_cast<int>(c.stages.size())};
      const auto seconds = two_buffer_seconds(model, c);
      ASSERT_EQ(least.count(s), 1u) << "seed " << seed;
      EXPECT_NEAR(seconds, least[s], 1e-12 * seconds) << "seed " << seed << ", " << s.first << " x " << s.second;
      EXPECT_GE(seconds, before);
      before = seconds;
      least.erase(s);
      ++plans;
      recomputing += c.stages[0].recompute ? 1 : 0;
    }
    EXPECT_TRUE(least.empty()) << "seed " << seed;
  }
  EXPECT_GE(plans, 400);
  EXPECT_GE(recomputing, 1);
}

} // namespace
} // namespace penstock::planner::testing
