// Chains through branching graphs, and which states a thinned one keeps.
#include "planner/search/state_chain.hpp"
#include "tests/planner/search/brute_force.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace penstock::planner::testing {
namespace {

double crossing_of(const std::vector<int>& chain, const load_table& loads) {
  double sum = 0;
  for (std::size_t i = 1; i < chain.size(); ++i)
    sum += loads.crossing_bytes(chain[i]);
  return sum;
}

TEST(StateChain, IsTheLongestAndCrossesLeast) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto i = random_instance(seed, {.layers = 7, .devices = 2});
    const layer_graph graph(i.model, i.together);
    const load_table loads(i.model, graph, 1, 1);
    const auto found = longest_chain(graph, loads, 512);
    ASSERT_EQ(found.front(), 0);
    ASSERT_EQ(found.back(), graph.states() - 1);
    for (std::size_t k = 1; k < found.size(); ++k)
      EXPECT_TRUE(graph.reaches(found[k - 1], found[k])) << "seed " << seed;
    std::size_t longest = 0;
    double least = 0;
    std::vector<int> chain{0};
    const auto extend = [&](const auto& self) -> void {
      if (chain.back() == graph.states() - 1) {
        const auto bytes = crossing_of(chain, loads);
        if (chain.size() > longest || (chain.size() == longest && bytes < least)) {
          longest = chain.size();
          least = bytes;
        }
      }
      for (int to = chain.back() + 1; to < graph.states(); ++to) {
        if (!graph.reaches(chain.back(), to)) continue;
        chain.push_back(to);
        self(self);
        chain.pop_back();
      }
    };
    extend(extend);
    EXPECT_EQ(found.size(), longest) << "seed " << seed;
    EXPECT_NEAR(crossing_of(found, loads), least, 1e-9 * least) << "seed " << seed;
  }
}

TEST(StateChain, ThinnedKeepsTheLeastCrossingOfEqualShares) {
  // Nine equal layers; from four shares of the compute the cuts of least bytes.
  std::vector<layer_cost> costs;
  for (const auto bytes : {9, 2, 8, 1, 7, 6, 3, 5, 4})
    costs.push_back({.forward_seconds = 1, .output_bytes = static_cast<double>(bytes)});
  const auto p = chain_profile(costs, std::vector<double>(costs.size(), 0));
  const layer_graph graph(p);
  const load_table loads(p, graph, 1, 1);
  EXPECT_EQ(longest_chain(graph, loads, 10).size(), 10u);
  // States 1-2 | 3-4 | 5-8 of shares of 2.25 s.
  EXPECT_EQ(longest_chain(graph, loads, 5), (std::vector<int>{0, 2, 4, 7, 9}));
  EXPECT_EQ(longest_chain(graph, loads, 2), (std::vector<int>{0, 9}));
}

} // namespace
} // namespace penstock::planner::testing
