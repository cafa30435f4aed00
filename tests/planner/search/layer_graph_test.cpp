// States against plain enumeration of subsets, published counts, and loads against sums over layers.
#include "planner/search/layer_graph.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/search/brute_force.hpp"
#include "tests/planner/search/published_profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace penstock::planner::testing {
namespace {

/// Inputs by layer; all costs 1, outputs of layer i are 2^i bytes.
profile graph_of(const std::vector<std::vector<int>>& inputs) {
  profile p;
  measurement m;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    p.layers.push_back({.name = "l" + std::to_string(i), .kind = "x", .inputs = inputs[i], .weight_bytes = 1});
    m.layers.push_back({.forward_seconds = 1, .backward_seconds = 2, .output_bytes = static_cast<double>(1u << i)});
  }
  p.measurements = {m};
  return p;
}

std::set<std::vector<int>> sets_of(const layer_graph& g) {
  std::set<std::vector<int>> sets;
  for (int s = 0; s < g.states(); ++s)
    sets.insert(g.layers_between(0, s));
  return sets;
}

/// Every subset of the layers that is closed under inputs and tears no group apart.
std::set<std::vector<int>> closed_subsets(const profile& p, std::vector<std::vector<int>> groups) {
  const auto layers = static_cast<int>(p.layers.size());
  for (int i = 1; i < layers; ++i)
    if (p.layers[static_cast<std::size_t>(i)].fused_with_previous) groups.push_back({i - 1, i});
  std::set<std::vector<int>> found;
  for (unsigned subset = 0; subset < 1u << layers; ++subset) {
    const auto has = [&](int i) { return i < 0 || (subset >> i & 1) != 0; };
    bool is_closed = true;
    for (int i = 0; i < layers; ++i)
      for (const auto input : p.layers[static_cast<std::size_t>(i)].inputs)
        is_closed = is_closed && (!has(i) || has(input));
    for (const auto& group : groups)
      for (const auto i : group)
        is_closed = is_closed && has(i) == has(group.front());
    if (!is_closed) continue;
    std::vector<int> members;
    for (int i = 0; i < layers; ++i)
      if (has(i)) members.push_back(i);
    found.insert(std::move(members));
  }
  return found;
}

TEST(LayerGraph, StatesAreAllClosedSubsets) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const auto i = random_instance(seed);
    const layer_graph g(i.model, i.together, {.states = 4096, .free_starts = 4096});
    EXPECT_TRUE(g.uses_antichains());
    const auto sets = sets_of(g);
    EXPECT_EQ(sets.size(), static_cast<std::size_t>(g.states()));
    EXPECT_EQ(sets, closed_subsets(i.model, i.together));
  }
}

TEST(LayerGraph, AStageLiesBetweenAStateAndASuperset) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto i = random_instance(seed);
    const layer_graph g(i.model, i.together);
    for (int from = 0; from < g.states(); ++from)
      for (int to = 0; to < g.states(); ++to) {
        const auto a = g.layers_between(0, from), b = g.layers_between(0, to);
        EXPECT_EQ(g.reaches(from, to), from != to && std::includes(b.begin(), b.end(), a.begin(), a.end()));
      }
  }
}

TEST(LayerGraph, CountsThePublishedStates) {
  struct facts {
    const char* name;
    int published; // without our empty state
    int layers;
  };
  for (const auto& f : {facts{"vgg16", 40, 40}, {"resnet50", 240, 176}, {"gnmt", 99, 37}, {"gnmt_large", 1495, 77}}) {
    const auto p = published_profile(f.name);
    const layer_graph g(p);
    EXPECT_TRUE(g.uses_antichains()) << f.name;
    EXPECT_EQ(g.states(), f.published + 1) << f.name;
    EXPECT_EQ(g.layers(), f.layers) << f.name;
    EXPECT_EQ(g.layers_between(0, g.states() - 1).size(), static_cast<std::size_t>(f.layers)) << f.name;
  }
}

TEST(LayerGraph, ASecondInputComesWithItsReaderBeyondTheLimitOfFreeStarts) {
  // Two chains of three that meet: 16 free sets and the end; from the first alone, its three prefixes.
  const auto p = graph_of({{-1}, {0}, {1}, {-1}, {3}, {4}, {2, 5}});
  EXPECT_EQ(layer_graph(p).states(), 17);
  const layer_graph attached(p, {}, {.states = 4096, .free_starts = 16});
  EXPECT_EQ(sets_of(attached), (std::set<std::vector<int>>{{}, {0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6}}));
  EXPECT_TRUE(attached.uses_antichains());
}

TEST(LayerGraph, PartsThatNothingJoinsAreDoneAtTheEnd) {
  const layer_graph g(graph_of({{-1}, {0}, {-1}}), {}, {.states = 4096, .free_starts = 0});
  EXPECT_EQ(sets_of(g), (std::set<std::vector<int>>{{}, {0}, {0, 1}, {0, 1, 2}}));
}

TEST(LayerGraph, BeyondTheLimitStatesArePrefixesOfTheProfilesOrder) {
  // Twelve branches of one layer each: 2^12 sets and two.
  std::vector<std::vector<int>> inputs{{-1}};
  for (int i = 0; i < 12; ++i)
    inputs.push_back({0});
  inputs.push_back({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto p = graph_of(inputs);
  EXPECT_EQ(layer_graph(p, {}, {.states = 4098, .free_starts = 0}).states(), 4098);
  const layer_graph g(p, {{3, 5}}, {.states = 1024});
  EXPECT_FALSE(g.uses_antichains());
  EXPECT_EQ(g.states(), 13); // 15 prefixes, two of which separate 3 and 5
  EXPECT_EQ(g.layers_between(2, 4), (std::vector<int>{2, 3, 4, 5}));
  // Layers 0 to 5 are done: their outputs but for the first's cross, and the first's too, for others read it.
  const load_table loads(p, g, 1, 1);
  EXPECT_EQ(loads.crossing_bytes(4), 1 + 2 + 4 + 8 + 16 + 32);
}

TEST(LayerGraph, KeepsGroupsTogetherWithAllBetween) {
  // 0 and 2 stay together, so 1, which lies between, does too.
  const auto p = graph_of({{-1}, {0}, {1}, {2}});
  EXPECT_EQ(sets_of(layer_graph(p, {{0, 2}})), (std::set<std::vector<int>>{{}, {0, 1, 2}, {0, 1, 2, 3}}));
  EXPECT_EQ(layer_graph(p, {{0, 1, 2, 3}}).states(), 2);
  EXPECT_EQ(layer_graph(p, {{0, 1}, {1, 2}, {}}).states(), 3);
}

TEST(LayerGraph, NamesTheOrderInWhichStagesAreContiguous) {
  const auto p = graph_of({{-1}, {0}, {0}, {1}, {2}, {3, 4}});
  const layer_graph g(p);
  const std::vector<int> order{0, 2, 4, 1, 3, 5};
  std::vector<int> path;
  for (const std::size_t count : {0, 3, 5, 6})
    path.push_back(g.state_after(order, count));
  EXPECT_EQ(path.front(), 0);
  EXPECT_EQ(path.back(), g.states() - 1);
  EXPECT_EQ(g.order_of(path), order);
  EXPECT_FALSE(g.keeps_profile_order(path));
  EXPECT_TRUE(g.keeps_profile_order({0, g.state_after({0, 1, 2}, 3), g.states() - 1}));
  EXPECT_EQ(g.state_after({1, 0}, 1), -1); // 1 needs 0
  EXPECT_EQ(g.state_after({0}, 2), -1);
  EXPECT_EQ(g.state_after({9}, 1), -1);
}

TEST(LayerGraph, RefusesWhatMakesNoSense) {
  const auto p = graph_of({{-1}, {0}});
  EXPECT_EQ(refusal_of([&] { layer_graph(p, {{0, 2}}); }), "layers to keep together name layer 2, wanted 0 to 1");
  EXPECT_EQ(refusal_of([&] { layer_graph(p, {}, {.states = 1}); }), "the limit of states is 1, wanted at least 2");
  EXPECT_EQ(refusal_of([&] { layer_graph(profile{}); }), "the profile has no layers, wanted at least one");
}

TEST(LayerGraph, TakesALongChain) {
  std::vector<std::vector<int>> inputs;
  for (int i = 0; i < 30; ++i)
    inputs.push_back({i - 1});
  auto p = graph_of(inputs);
  while (p.layers.size() < 20'000) {
    const auto i = static_cast<int>(p.layers.size());
    p.layers.push_back({.name = std::to_string(i), .kind = "x", .inputs = {i - 1}, .weight_bytes = 1});
    p.measurements[0].layers.push_back({.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 8});
  }
  const layer_graph g(p);
  EXPECT_EQ(g.states(), 20'001);
  const load_table loads(p, g, 1, 1);
  EXPECT_EQ(loads.between(100, 19'000).weight_bytes, 18'900);
  EXPECT_EQ(loads.crossing_bytes(19'000), 8);
}

TEST(LoadTable, EqualsSumsOverLayers) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto i = random_instance(seed);
    const auto& p = i.model;
    for (const auto limit : {2, 4096}) { // prefixes, antichains
      const layer_graph g(p, i.together, {.states = limit});
      const load_table loads(p, g, 3, 1, 2.0);
      const auto costs = costs_at(p, 3, 1);
      const auto updates = update_seconds_at(p, 1);
      for (int from = 0; from < g.states(); ++from)
        for (int to = from + 1; to < g.states(); ++to) {
          if (!g.reaches(from, to)) continue;
          stage_load sum;
          for (const auto layer : g.layers_between(from, to)) {
            const auto l = static_cast<std::size_t>(layer);
            sum.forward_seconds += costs[l].forward_seconds / 2;
            sum.backward_seconds += costs[l].backward_seconds / 2;
            sum.accumulate_seconds += costs[l].accumulate_seconds / 2;
            sum.update_seconds += updates[l] / 2;
            sum.weight_bytes += p.layers[l].weight_bytes;
            sum.kept_bytes += costs[l].kept_bytes;
            sum.workspace_bytes = std::max(sum.workspace_bytes, costs[l].workspace_bytes);
          }
          const auto got = loads.between(from, to);
          EXPECT_NEAR(got.forward_seconds, sum.forward_seconds, 1e-12);
          EXPECT_NEAR(got.backward_seconds, sum.backward_seconds, 1e-12);
          EXPECT_NEAR(got.accumulate_seconds, sum.accumulate_seconds, 1e-12);
          EXPECT_NEAR(got.update_seconds, sum.update_seconds, 1e-12);
          EXPECT_NEAR(got.weight_bytes, sum.weight_bytes, 1e-12);
          EXPECT_NEAR(got.kept_bytes, sum.kept_bytes, 1e-11);
          EXPECT_EQ(got.workspace_bytes, sum.workspace_bytes);
          EXPECT_EQ(got.input_bytes, from > 0 ? loads.crossing_bytes(from) : 0);
          EXPECT_EQ(got.output_bytes, loads.crossing_bytes(to));
        }
    }
  }
}

TEST(LoadTable, ChargesEachTensorThatCrossesOnce) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto i = random_instance(seed);
    const auto& p = i.model;
    const layer_graph g(p, i.together);
    const load_table loads(p, g, 2.5, 1);
    const auto costs = costs_at(p, 2.5, 1);
    for (int s = 0; s < g.states(); ++s) {
      std::set<int> crossing;
      for (int reader = 0; reader < g.layers(); ++reader)
        for (const auto input : p.layers[static_cast<std::size_t>(reader)].inputs)
          if (!g.is_done(s, reader) && (input < 0 || g.is_done(s, input))) crossing.insert(input);
      double bytes = 0;
      for (const auto tensor : crossing)
        bytes += tensor < 0 ? 2.5 * static_cast<double>(p.input_bytes_per_sample)
                            : costs[static_cast<std::size_t>(tensor)].output_bytes;
      EXPECT_NEAR(loads.crossing_bytes(s), bytes, 1e-12);
    }
    EXPECT_EQ(loads.crossing_bytes(g.states() - 1), 0);
  }
}

} // namespace
} // namespace penstock::planner::testing
