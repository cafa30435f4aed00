// Minibatches of an epoch and drain points, far corners included.
#include "actors/policy/epoch_minibatches.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <stdexcept>

namespace penstock::actors {
namespace {

using ::testing::ElementsAre;

constexpr auto largest = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> drains_of(const drain_plan& plan) {
  std::vector<std::int64_t> points;
  for (std::int64_t done = 0; done < plan.total && points.size() < 100;)
    points.push_back(done = plan.next(done));
  return points;
}

TEST(MinibatchPlan, CoversEachEpochOnceAndOnlyTheTailIsSmaller) {
  for (const std::int64_t samples : {1, 7, 8, 9, 44})
    for (const std::int64_t batch : {1, 2, 8, 44, 100}) {
      const epoch_minibatches plan(samples, batch);
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        std::int64_t next = 0;
        for (std::int64_t i = 0; i < plan.per_epoch(); ++i) {
          const auto range = plan.at(epoch * plan.per_epoch() + i);
          EXPECT_EQ(range.epoch, epoch);
          EXPECT_EQ(range.first, next);
          EXPECT_EQ(range.samples, i + 1 < plan.per_epoch() ? batch : samples - next);
          next += range.samples;
        }
        EXPECT_EQ(next, samples);
      }
    }
}

TEST(MinibatchPlan, DropsTheTailWhereAskedAndNothingElse) {
  for (const std::int64_t samples : {8, 9, 15, 16, 44})
    for (const std::int64_t batch : {1, 2, 8}) {
      const epoch_minibatches kept(samples, batch);
      const epoch_minibatches dropped(samples, batch, last_batch::drop);
      EXPECT_EQ(kept.tail(), samples % batch);
      EXPECT_EQ(dropped.tail(), 0);
      EXPECT_EQ(dropped.per_epoch(), samples / batch);
      for (std::int64_t m = 0; m < 2 * dropped.per_epoch(); ++m) {
        const auto range = dropped.at(m);
        EXPECT_EQ(range.epoch, m / dropped.per_epoch());
        EXPECT_EQ(range.first, m % dropped.per_epoch() * batch);
        EXPECT_EQ(range.samples, batch);
      }
    }
  EXPECT_THROW(epoch_minibatches(7, 8, last_batch::drop), std::logic_error);
}

TEST(MinibatchPlan, TakesABatchLargerThanAnyDataSet) {
  const epoch_minibatches plan(44, largest);
  EXPECT_EQ(plan.per_epoch(), 1);
  EXPECT_EQ(plan.at(3).samples, 44);
  EXPECT_EQ(plan.at(3).first, 0);
}

TEST(MinibatchPlan, RefusesNoSamplesAndNoBatch) {
  EXPECT_THROW(epoch_minibatches(0, 8), std::logic_error);
  EXPECT_THROW(epoch_minibatches(8, 0), std::logic_error);
}

TEST(DrainPlan, DrainsWhereAnEvaluationOrACheckpointIsDueAndAtTheEnd) {
  EXPECT_THAT(drains_of({.total = 12, .per_epoch = 5}), ElementsAre(12));
  EXPECT_THAT(drains_of({.total = 12, .per_epoch = 5, .eval_every = 1}), ElementsAre(5, 10, 12));
  EXPECT_THAT(drains_of({.total = 12, .per_epoch = 5, .eval_every = 2}), ElementsAre(10, 12));
  EXPECT_THAT(drains_of({.total = 12, .per_epoch = 5, .checkpoint_every = 4}), ElementsAre(4, 8, 12));
  EXPECT_THAT(drains_of({.total = 12, .per_epoch = 5, .eval_every = 1, .checkpoint_every = 4}),
              ElementsAre(4, 5, 8, 10, 12));
  EXPECT_THAT(drains_of({.total = 3, .per_epoch = 5, .eval_every = 1, .checkpoint_every = 9}), ElementsAre(3));
}

TEST(DrainPlan, NeverDrainsForNothing) {
  const drain_plan plan{.total = 60, .per_epoch = 5, .eval_every = 3, .checkpoint_every = 7};
  for (std::int64_t done = 0; done < plan.total;) {
    done = plan.next(done);
    EXPECT_TRUE(done == plan.total || plan.evaluates_at(done) || plan.checkpoints_at(done)) << done;
  }
  EXPECT_FALSE(plan.evaluates_at(0));
  EXPECT_FALSE(plan.checkpoints_at(0));
}

TEST(DrainPlan, TurnsOffWhatIsNotAbove0) {
  for (const std::int64_t never : {std::int64_t{0}, std::int64_t{-1}}) {
    const drain_plan plan{.total = 12, .per_epoch = 5, .eval_every = never};
    EXPECT_THAT(drains_of(plan), ElementsAre(12));
    EXPECT_FALSE(plan.evaluates_at(5));
    EXPECT_FALSE(plan.checkpoints_at(5));
  }
}

TEST(DrainPlan, TakesPeriodsLongerThanAnyRun) {
  for (const std::int64_t period : {largest, largest / 2, largest / 5 + 1}) {
    const drain_plan plan{.total = 12, .per_epoch = 5, .eval_every = period, .checkpoint_every = period};
    EXPECT_THAT(drains_of(plan), ElementsAre(12)) << period;
    for (std::int64_t done = 0; done <= 12; ++done)
      EXPECT_FALSE(plan.evaluates_at(done)) << period << ", " << done;
  }
}

TEST(DrainPlan, GoesOnFromAnyPlaceOfAResumedRun) {
  const drain_plan plan{.total = 20, .per_epoch = 5, .eval_every = 1, .checkpoint_every = 4};
  EXPECT_EQ(plan.next(6), 8);
  EXPECT_EQ(plan.next(8), 10);
  EXPECT_EQ(plan.next(20), 20);
}

TEST(DrainPlan, MovesEveryPointButTheEndUpToAMultiple) {
  const drain_plan plan{.total = 25, .per_epoch = 12, .eval_every = 1, .checkpoint_every = 5, .multiple = 4};
  EXPECT_THAT(drains_of(plan), ElementsAre(8, 12, 16, 20, 24, 25)) << "for 5, 10 and the epoch, 15, 20, the epoch";
  for (const std::int64_t done : {8, 12, 16, 20})
    EXPECT_TRUE(plan.checkpoints_at(done)) << done;
  EXPECT_FALSE(plan.checkpoints_at(4));
  EXPECT_FALSE(plan.checkpoints_at(24));
  EXPECT_EQ(plan.next(6), 8) << "stopped between a point and where it was moved to";
  EXPECT_EQ(plan.next(8), 12);
}

} // namespace
} // namespace penstock::actors
