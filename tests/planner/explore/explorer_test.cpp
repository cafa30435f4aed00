// What an exploration knows before it tries anything, and what it need not try.
#include "planner/explore/explorer.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

TEST(Explorer, NothingIsBelowItsLeastSeconds) {
  auto p = vgg_like();
  const auto c = flat_cluster(4, 1e12);
  const plan_request request{.batch = 32};
  const explorer whole(p, c, request);
  EXPECT_NEAR(whole.least_seconds(1), 0.498, 1e-9); // 3 x (8 x 0.02 + 0.004 + 0.002)
  EXPECT_NEAR(whole.least_seconds(4), 0.498 / 4, 1e-9);
  for (const auto& t : whole.run())
    if (t.runs()) {
      EXPECT_GE(t.step_seconds(), whole.least_seconds(t.devices) * (1 - 1e-9));
    }

  auto smaller = p.measurements.front(); // in which a sample takes half as long
  smaller.samples = 8;
  for (auto& cost : smaller.layers) {
    cost.forward_seconds /= 8;
    cost.backward_seconds /= 8;
  }
  p.measurements.insert(p.measurements.begin(), smaller);
  EXPECT_NEAR(explorer(p, c, request).least_seconds(1), 0.498 / 2, 1e-9);
}

TEST(Explorer, TriesNoMoreInFlightWhereAPipelineIsAtFullSpeed) {
  const auto p = chain_of({{"a"}, {"b"}, {"c"}, {"d"}});
  const auto c = flat_cluster(2, 1e12);
  const plan_request request{.schedules = {"pipedream"}, .replicas = {1, 1}, .first_layers = {"c"}};
  const auto trials = explorer(p, c, request).run();
  ASSERT_FALSE(trials.empty());
  for (const auto& t : trials)
    EXPECT_EQ(t.made.stages.front().in_flight, 2) << "tight credits do";
}

} // namespace
} // namespace penstock::planner::testing
