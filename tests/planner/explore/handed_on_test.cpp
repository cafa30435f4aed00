// Plans of a model that hands something from minibatch to minibatch, against every plan there is.
#include "planner/explore/explore.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace penstock::planner::testing {
namespace {

/// By brute force, every partition into stages with every replica counts, tight credits: the least seconds of those
/// that fit.
double best_that_fits(const profile& p, const cluster& c, const std::string& schedule) {
  const auto layers = static_cast<int>(p.layers.size());
  double best = INFINITY;
  const std::function<void(plan, int, int)> extend = [&](const plan& begun, int first, int left) {
    if (first == layers) {
      const auto made = predict(begun, p, c);
      const bool fits = std::all_of(made.predicted->stages.begin(), made.predicted->stages.end(),
                                    [&](const auto& s) { return s.memory.total <= c.devices.front().memory_bytes; });
      if (fits) best = std::min(best, made.predicted->step_seconds);
      return;
    }
    for (int end = first + 1; end <= layers; ++end)
      for (int replicas = 1; replicas <= left; ++replicas) {
        auto longer = begun;
        longer.stages.push_back({.first_layer = p.layers[static_cast<std::size_t>(first)].name,
                                 .last_layer = p.layers[static_cast<std::size_t>(end) - 1].name,
                                 .replicas = replicas});
        extend(longer, end, left - replicas);
      }
  };
  plan begun;
  begun.schedule = schedule;
  begun.microbatches = 1;
  extend(begun, 0, c.device_count());
  return best;
}

// What is handed on may take most of the memory, and more of it with each replica count that divides no other: were it
// no part of the searches' memory, the few partitions that they propose here would all be too large.
TEST(ExploreHandedOn, ProposesWhatFitsBesideIt) {
  std::mt19937 random(5);
  int differ = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<layer_of> layers;
    for (int i = 0; i < 5; ++i)
      layers.push_back({"l" + std::to_string(i), 1.0 + static_cast<double>(random() % 6), 0, 10});
    auto p = chain_of(layers, 4);
    for (auto& l : p.layers)
      l.carried_bytes = static_cast<double>(random() % 2 * (20 + random() % 60));
    auto c = flat_cluster(5, 1e12);
    c.devices.front().memory_bytes = 700;
    const plan_request few{.schedules = {"pipedream"}, .in_flight = "tight", .update_lag = "0", .top = 2};
    const auto best = best_that_fits(p, c, "pipedream");
    const auto made = make_plan(p, c, few);
    EXPECT_LE(made.predicted->step_seconds, best * 1.02) << round << ": " << describe_stages(made);
    auto without = p;
    for (auto& l : without.layers)
      l.carried_bytes = 0;
    differ += describe_stages(make_plan(without, c, few)) != describe_stages(made) ? 1 : 0;
  }
  EXPECT_GT(differ, 3) << "or nothing is tried here";
}

} // namespace
} // namespace penstock::planner::testing
