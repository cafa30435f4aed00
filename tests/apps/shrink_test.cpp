// What is left of a pipeline without one of its ranks.
#include "apps/runner/shrink.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Shrink, AStageLosesTheReplicasOfTheRank) {
  const auto where = actors::place_in_order({3, 1}, 4);
  EXPECT_THAT(without_rank(where, 1), ElementsAre(2, 1));
  EXPECT_THAT(without_rank(where, 3), ElementsAre(3)) << "the first stage takes the layers of the second";
}

TEST(Shrink, ARankOfSeveralStagesTakesThemAllWithIt) {
  const auto where = actors::place_in_order({2, 1, 2}, 3); // ranks 0 0 | 1 | 1 2
  EXPECT_THAT(without_rank(where, 1), ElementsAre(2, 1));
  EXPECT_THAT(without_rank(actors::place_in_order({1, 1}, 1), 0), IsEmpty());
}

TEST(Shrink, CutsAreKeptOnlyWhereTheStagesAreAndAListOfCreditsNever) {
  actors::run_options run;
  run.replicas = {2, 1};
  run.cuts = {4};
  run.recompute = {true, false};
  run.in_flight = planner::parse_in_flight("3,1");
  auto fewer_replicas = run;
  shrink_pipeline({1, 1}, fewer_replicas);
  EXPECT_THAT(fewer_replicas.replicas, ElementsAre(1, 1));
  EXPECT_THAT(fewer_replicas.cuts, ElementsAre(4));
  EXPECT_THAT(fewer_replicas.recompute, ElementsAre(true, false));
  EXPECT_THAT(fewer_replicas.in_flight.given, IsEmpty());
  auto fewer_stages = run;
  shrink_pipeline({2}, fewer_stages);
  EXPECT_THAT(fewer_stages.cuts, IsEmpty());
  EXPECT_THAT(fewer_stages.recompute, IsEmpty());
}

} // namespace
} // namespace penstock::apps
