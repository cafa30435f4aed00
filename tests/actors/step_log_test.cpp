// Losses of micro-batches, in whatever order they come, as step events in the order of minibatches.
#include "actors/run/step_log.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace penstock::actors {
namespace {

// Of a micro-batch, in a minibatch of so many samples.
loss_metrics found(double loss, std::int64_t samples, double top1, double top5, double of) {
  return {.samples = samples, .sums = {loss, top1, top5}, .counts = {of}};
}

class StepLog : public ::testing::Test {
public:
  step_log log_of(int microbatches, std::int64_t per_epoch = 3, std::int64_t total = 9) {
    return step_log(testing::tiny_residual_network(), seen, {.base = 0.5F, .warmup_steps = 2}, microbatches, per_epoch,
                    total);
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> all;
    for (const auto& e : seen.steps)
      all.push_back(e.step);
    return all;
  }
  testing::recording_observer seen;
};

TEST_F(StepLog, ReportsAMinibatchWhenItsLastMicrobatchIsIn) {
  auto log = log_of(2);
  log.begin_stretch(0, 1);
  log.add(0, 1, found(3.0, 2, 1, 2, 4));
  EXPECT_TRUE(seen.steps.empty());
  log.add(0, 0, found(1.0, 2, 1, 1, 4));
  ASSERT_EQ(seen.steps.size(), 1U);
  const auto& e = seen.steps[0];
  EXPECT_EQ(e.step, 1);
  EXPECT_EQ(e.epoch, 0);
  EXPECT_EQ(e.total_steps, 9);
  EXPECT_DOUBLE_EQ(e.loss, 1.0) << "the mean over four samples";
  ASSERT_EQ(e.shown.size(), 1U) << "top5 is for evaluations";
  EXPECT_EQ(e.shown[0].name, "accuracy");
  EXPECT_DOUBLE_EQ(e.shown[0].value, 0.5);
  EXPECT_FLOAT_EQ(e.learning_rate, 0.25F);
  EXPECT_GT(e.samples_per_s, 0);
  EXPECT_TRUE(std::isfinite(e.samples_per_s));
  EXPECT_EQ(log.steps(), 1);
  EXPECT_EQ(log.samples(), 4);
}

TEST_F(StepLog, HoldsBackMinibatchesThatAreEarly) {
  auto log = log_of(1);
  log.begin_stretch(2, 1);
  log.add(4, 0, found(1, 1, 0, 0, 1));
  log.add(3, 0, found(1, 1, 0, 0, 1));
  EXPECT_TRUE(seen.steps.empty());
  log.add(2, 0, found(1, 1, 0, 0, 1));
  EXPECT_THAT(steps(), ::testing::ElementsAre(3, 4, 5));
  EXPECT_EQ(seen.steps[0].epoch, 0);
  EXPECT_EQ(seen.steps[1].epoch, 1);
}

TEST_F(StepLog, SumsInMicrobatchOrderWhateverTheOrderOfArrival) {
  std::vector<int> order{0, 1, 2, 3};
  const std::vector<double> losses{1e16, 1.0, -1e16, 1.0}; // any other order gives another sum
  std::set<double> sums;
  do {
    seen.steps.clear();
    auto log = log_of(4);
    log.begin_stretch(0, 1);
    for (const int m : order)
      log.add(0, m, found(losses[static_cast<std::size_t>(m)], 1, 0, 0, 4));
    sums.insert(seen.steps.at(0).loss);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_THAT(sums, ::testing::ElementsAre(0.25));
}

TEST_F(StepLog, TakesEmptyMicrobatches) {
  auto log = log_of(2);
  log.begin_stretch(0, 1);
  log.add(0, 0, found(2.0, 1, 1, 1, 1));
  log.add(0, 1, found(0, 0, 0, 0, 1));
  ASSERT_EQ(seen.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(seen.steps[0].loss, 2.0);
  log.add(1, 0, {});
  log.add(1, 1, {});
  EXPECT_DOUBLE_EQ(seen.steps.at(1).loss, 0) << "no samples, no division by none";
}

TEST_F(StepLog, CountsOnOverSegments) {
  auto log = log_of(1);
  for (const std::int64_t first : {0, 4}) {
    log.begin_stretch(first, 2);
    for (std::int64_t i = 0; i < 4; ++i)
      log.add(first + i, 0, found(1, 8, 0, 0, 8));
    log.end_stretch();
  }
  EXPECT_EQ(log.steps(), 8);
  EXPECT_EQ(log.samples(), 64);
  EXPECT_THAT(steps(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_GT(log.seconds(), 0);
  EXPECT_DOUBLE_EQ(log.samples_per_s(), 64 / log.seconds());
  EXPECT_GT(log.steady_samples_per_s(), 0);
  EXPECT_NEAR(log.step_seconds() * log.steady_samples_per_s(), 8, 1e-9) << "a minibatch has 8 samples";
}

TEST_F(StepLog, HasNoRateBeforeItRan) {
  auto log = log_of(1);
  EXPECT_EQ(log.samples_per_s(), 0);
  EXPECT_EQ(log.steady_samples_per_s(), 0);
  EXPECT_EQ(log.step_seconds(), 0);
  log.begin_stretch(0, 5);
  log.add(0, 0, found(1, 8, 0, 0, 8));
  log.end_stretch();
  EXPECT_DOUBLE_EQ(log.steady_samples_per_s(), log.samples_per_s()) << "too short to have been steady";
  EXPECT_DOUBLE_EQ(log.step_seconds(), log.seconds());
}

} // namespace
} // namespace penstock::actors
