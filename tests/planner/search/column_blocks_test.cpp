// What minibatches hand on is part of a search's memory: of every partition as brute force has it.
#include "planner/search/column_blocks.hpp"
#include "planner/search/flat_search.hpp"
#include "planner/search/hierarchical_search.hpp"
#include "planner/search/two_buffer_search.hpp"
#include "tests/planner/search/brute_force.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

namespace penstock::planner::testing {
namespace {

TEST(ColumnBlocks, AreTheLeastCommonMultiple) {
  EXPECT_EQ(column_blocks_of({}), 1);
  EXPECT_EQ(column_blocks_of({4, 1, 6}), 12);
  EXPECT_EQ(column_blocks_of({1009, 1013, 1019, 1021, 1031, 1033, 1039}), 1'000'000'000'000) << "and end somewhere";
}

TEST(ColumnBlocks, AllThatReplicasOfSoManyDevicesHaveAreKnown) {
  for (int devices = 1; devices <= 16; ++devices) {
    std::set<std::int64_t> all;
    const std::function<void(std::int64_t, int, int)> add = [&](std::int64_t blocks, int largest, int left) {
      all.insert(blocks);
      for (int r = 1; r <= std::min(largest, left); ++r)
        add(std::lcm(blocks, std::int64_t{r}), r, left - r);
    };
    add(1, devices, devices);
    EXPECT_THAT(possible_column_blocks(devices), ::testing::ElementsAreArray(all)) << devices;
  }
  EXPECT_THAT(possible_column_blocks(20), ::testing::ElementsAre(0, 1, 2, 4, 8, 16));
}

/// Half of the layers hand something on, and every device has a limit.
search_instance instance_that_hands_on(std::uint64_t seed, const instance_limits& limits) {
  auto i = random_instance(seed, limits);
  std::mt19937_64 random(seed);
  i.request.samples = 2;
  const auto layers = static_cast<double>(i.model.layers.size());
  for (auto& l : i.model.layers)
    if (random() % 2 == 0) l.carried_bytes = static_cast<double>(random() % 20) / layers;
  i.model.layers.back().carried_bytes += 0.5;
  for (auto& type : i.on.devices)
    type.memory_bytes = type.memory_bytes == 0 ? 20 + static_cast<double>(random() % 60) : 2 * type.memory_bytes;
  return i;
}

/// Whether each stage fits its device in one of the ways allowed, told by the model that knows nothing of what is
/// handed on and a sum over the layers.
bool fits(const candidate& c, const stage_cost& plain, const search_instance& i) {
  const auto blocks = column_blocks_of(replicas_of(c));
  const auto batch = i.request.samples * i.request.microbatches;
  int downstream = 0;
  for (auto s = c.stages.rbegin(); s != c.stages.rend(); ++s) {
    const auto replicas = static_cast<int>(s->devices.size());
    const auto type = plain.on().type_of(s->devices.front());
    const auto k = plain.in_flight(replicas, downstream);
    double carried = 0;
    for (const auto layer : plain.graph().layers_between(s->from_state, s->to_state))
      carried += i.model.layers[static_cast<std::size_t>(layer)].carried_bytes * batch * static_cast<double>(blocks) /
                 replicas;
    const auto load = plain.loads(type).between(s->from_state, s->to_state);
    const bool has_room = std::any_of(plain.options().begin(), plain.options().end(), [&](const stage_options& how) {
      return (how.update_lag == 0 || replicas > 1) &&
             plain.memory_bytes(load, k, how) + carried <= plain.memory_limit(type);
    });
    if (!has_room || !plain.admits(replicas, k)) return false;
    downstream += replicas;
  }
  return true;
}

class ColumnBlocksSearch : public ::testing::TestWithParam<int> {};

TEST_P(ColumnBlocksSearch, EqualsBruteForceOverAllNumbersOfBlocks) {
  int feasible = 0, bitten = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto i = instance_that_hands_on(static_cast<std::uint64_t>(GetParam()) * 100 + seed, {.layers = 7, .devices = 6});
    auto unaware = i.model;
    for (auto& l : unaware.layers)
      l.carried_bytes = 0;
    const layer_graph graph(i.model, i.together);
    const stage_cost plain(unaware, graph, i.on, i.request), any(i.model, graph, i.on, i.request);
    const bool by_group = i.request.charge == update_charge::every_group;
    double best = INFINITY, best_unaware = INFINITY;
    for_each_partition(any, [&](const candidate& c) {
      EXPECT_EQ(c.seconds < INFINITY, fits(c, plain, i));
      if (by_group || i.request.microbatches % column_blocks_of(replicas_of(c)) == 0) best = std::min(best, c.seconds);
    });
    for_each_partition(plain, [&](const candidate& c) { best_unaware = std::min(best_unaware, c.seconds); });
    double found = INFINITY;
    for (const auto blocks : possible_column_blocks(i.on.device_count())) {
      if (!by_group && i.request.microbatches % blocks != 0) continue;
      i.request.column_blocks = blocks;
      const stage_cost model(i.model, graph, i.on, i.request);
      auto all = search_flat(model);
      const auto append = [&](const std::vector<candidate>& more) { all.insert(all.end(), more.begin(), more.end()); };
      if (i.request.charge == update_charge::every_minibatch) append(search_two_buffer(model));
      append(search_hierarchical(model));
      for (const auto& c : all) {
        EXPECT_TRUE(fits(c, plain, i)) << "nothing is proposed that does not fit";
        EXPECT_EQ(blocks % column_blocks_of(replicas_of(c)), 0);
        if (c.origin != "2bw") found = std::min(found, c.seconds);
      }
    }
    i.request.column_blocks = 0;
    EXPECT_TRUE(found == best || std::abs(found - best) <= 1e-9 * best) << found << " instead of " << best;
    feasible += best < INFINITY ? 1 : 0;
    bitten += best > best_unaware ? 1 : 0;
  }
  EXPECT_GT(feasible, 10);
  EXPECT_GT(bitten, 3) << "or nothing is tried here";
}

INSTANTIATE_TEST_SUITE_P(Seeds, ColumnBlocksSearch, ::testing::Range(0, 6));

} // namespace
} // namespace penstock::planner::testing
