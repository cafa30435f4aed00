// Which rank hosts what.
#include "actors/policy/placement.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

namespace penstock::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Placement, OneReplicaARankWhereTheyAreAsMany) {
  const auto p = place_in_order({3, 1}, 4);
  EXPECT_THAT(p.rank_of, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
  EXPECT_EQ(p.owner(0), 0);
  EXPECT_EQ(p.owner(1), 3);
  EXPECT_THAT(p.hosts(0), ElementsAre(0, 1, 2));
}

TEST(Placement, FewerRanksTakeNeighboursTogether) {
  const auto p = place_in_order({2, 1, 2}, 3);
  EXPECT_THAT(p.rank_of, ElementsAre(ElementsAre(0, 0), ElementsAre(1), ElementsAre(1, 2)));
  EXPECT_THAT(p.hosts(0), ElementsAre(0));
  EXPECT_THAT(p.hosts(2), ElementsAre(1, 2));
  EXPECT_THAT(p.replicas_on(0, 0), ElementsAre(0, 1));
  EXPECT_THAT(p.replicas_on(0, 2), IsEmpty());
}

TEST(Placement, EveryRankHasWorkWhateverTheNumbers) {
  for (int replicas = 1; replicas <= 9; ++replicas)
    for (int ranks = 1; ranks <= replicas; ++ranks) {
      const auto p = place_in_order({replicas}, ranks);
      for (int r = 0; r < ranks; ++r)
        EXPECT_FALSE(p.replicas_on(0, r).empty()) << replicas << " on " << ranks;
    }
}

TEST(Placement, MoreRanksThanReplicasAreRefused) {
  EXPECT_THAT(
      [] {
        place_in_order({1, 1}, 3);
      },
      ThrowsMessage<usage_error>(HasSubstr("3 processes, the plan 2 stage replicas")));
}

TEST(Placement, APlansOwnIsChecked) {
  EXPECT_NO_THROW(check_placement({3, {{2}, {0}}}, {1, 1})); // rank 1 idles
  EXPECT_THAT(
      [] {
        check_placement({2, {{0}, {2}}}, {1, 1});
      },
      ThrowsMessage<usage_error>(HasSubstr("stage 1 names rank 2, the job has 2")));
  EXPECT_THAT([] { check_placement({2, {{0}}}, {1, 1}); }, ThrowsMessage<usage_error>(HasSubstr("1 stages, wanted 2")));
  EXPECT_THAT(
      [] {
        check_placement({2, {{0}, {1}}}, {2, 1});
      },
      ThrowsMessage<usage_error>(HasSubstr("stage 0 has 1 ranks, wanted 2")));
}

} // namespace
} // namespace penstock::actors
