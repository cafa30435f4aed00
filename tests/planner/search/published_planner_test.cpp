// The published planner's golden table under its own cost model, so that any difference of our searches is a choice.
#include "tests/planner/search/brute_force.hpp"
#include "tests/planner/search/published_planner.hpp"
#include "tests/planner/search/published_profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace penstock::planner::testing {
namespace {

using levels = std::vector<published_level>;

struct golden { // printed with six and three decimals
  std::string model;
  levels machines;
  double seconds;
  double times_one_machine;
};

/// Prints the case where one fails.
void PrintTo(const golden& g, std::ostream* out) {
  *out << g.model << " on " << g.machines.front().machines << " machines";
}

class PublishedGoldenTable : public ::testing::TestWithParam<golden> {};

TEST_P(PublishedGoldenTable, BottleneckIsReproduced) {
  const auto& wanted = GetParam();
  const auto p = published_profile(wanted.model);
  const layer_graph graph(p, {}, {.free_starts = 0});
  const load_table loads(p, graph, 1, 1);
  const auto plan = best_published_plan(graph, loads, wanted.machines);
  constexpr double half_of_the_last_digit = 5e-7;
  EXPECT_NEAR(plan.seconds, wanted.seconds, std::max(1e-5 * wanted.seconds, half_of_the_last_digit));
  const auto all = loads.between(0, graph.states() - 1);
  const auto speedup = (all.forward_seconds + all.backward_seconds) / plan.seconds;
  EXPECT_NEAR(speedup, wanted.times_one_machine, 0.0006);
  const std::vector<published_stage> undivided{{0, graph.states() - 1, 4}};
  if (wanted.machines.size() == 2) {
    EXPECT_EQ(plan.stages, undivided);
  }
}

// Bottleneck and speedup as the published command line prints them.
INSTANTIATE_TEST_SUITE_P(, PublishedGoldenTable,
                         ::testing::Values(golden{"vgg16", {{4, 1e9}}, 0.205521, 3.272},
                                           golden{"vgg16", {{16, 1.25e9}}, 0.054795, 12.274},
                                           golden{"vgg16", {{16, 3.125e9}}, 0.045525, 14.773},
                                           golden{"resnet50", {{4, 1e9}}, 0.162881, 2.722},
                                           golden{"resnet50", {{4, 10e9}, {4, 1.25e9}}, 0.043208, 10.262},
                                           golden{"gnmt", {{4, 1e9}}, 0.025868, 3.457}));

TEST(PublishedPlanner, ChargesTwoLayersAsWorkedByHand) {
  // Layers of 3 s and 1 s, 10 and 20 bytes of weights, 6 bytes between them.
  const auto p = chain_profile({{.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 6},
                                {.forward_seconds = 0.5, .backward_seconds = 0.5, .output_bytes = 1}},
                               {10, 20});
  const layer_graph graph(p);
  const load_table loads(p, graph, 1, 1);
  // Data parallel on 2: (4 + 4 x 30 / (2 x 100)) / 2 = 2.3; cut: max(3, 1, 2 x 6 / 100).
  EXPECT_DOUBLE_EQ(best_published_plan(graph, loads, {{2, 100}}).seconds, 2.3);
  // At 20 bytes/s: (4 + 3) / 2 = 3.5 against the cut's max(3, 1, 0.6).
  const auto cut = best_published_plan(graph, loads, {{2, 20}});
  EXPECT_DOUBLE_EQ(cut.seconds, 3);
  EXPECT_EQ(cut.stages, (std::vector<published_stage>{{0, 1, 1}, {1, 2, 1}}));
  // Two such pairs at 100 bytes/s: one stage alone has half the sync of two machines, (2.3 + 0.6 / 2) / 2.
  EXPECT_DOUBLE_EQ(best_published_plan(graph, loads, {{2, 100}, {2, 100}}).seconds, 1.3);
}

/// The least over all pipelines of one level, written as its formula says.
double least_seconds(const layer_graph& graph, const load_table& loads, const published_level& level) {
  auto least = std::numeric_limits<double>::infinity();
  const auto B = level.bytes_per_second;
  const std::function<void(int, int, double)> extend = [&](int state, int left, double slowest) {
    const auto last = graph.states() - 1;
    if (state == last) {
      if (left == 0) least = std::min(least, slowest);
      return;
    }
    for (int to = state + 1; to <= last; ++to)
      for (int m = 1; m <= left && graph.reaches(state, to); ++m) {
        const auto load = loads.between(state, to);
        auto here = (load.forward_seconds + load.backward_seconds + 4 * (m - 1) * load.weight_bytes / (m * B)) / m;
        if (state > 0) here = std::max(here, 2 * loads.crossing_bytes(state) / (B * m));
        // What goes out is charged to all stages but the first.
        if (state > 0 && to < last) here = std::max(here, 2 * loads.crossing_bytes(to) / (B * m));
        extend(to, left - m, std::max(slowest, here));
      }
  };
  extend(0, level.machines, 0);
  return least;
}

TEST(PublishedPlanner, IsTheLeastOfAllPipelines) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto random = random_instance(seed, {.layers = 8, .devices = 4});
    const layer_graph graph(random.model);
    const load_table loads(random.model, graph, 1, 1);
    const published_level level{4, random.on.levels.front().bandwidth_bytes_per_s};
    const auto least = least_seconds(graph, loads, level);
    EXPECT_NEAR(best_published_plan(graph, loads, {level}).seconds, least, 1e-12 * least) << "seed " << seed;
  }
}

} // namespace
} // namespace penstock::planner::testing
