// Minibatches and micro-batches that are too small: what is left out, and what is refused before anything is computed.
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// BatchNorm on maps of one pixel, as in the last blocks of a residual network on small images.
std::shared_ptr<const model> network_with_small_maps() {
  using namespace layers;
  model_builder b("small", {3, 8, 8});
  auto x = b.add("conv", conv2d({.in_channels = 3, .out_channels = 4, .kernel = {8, 8}}), {b.input()});
  x = b.add("bn", batch_norm2d(4), {x});
  x = b.add("relu", relu(), {x});
  x = b.add("flatten", flatten(), {x});
  x = b.add("fc", linear({.in_features = 4, .out_features = 5}), {x});
  return std::make_shared<const model>(b.build(x));
}

run_setup options_of(const std::string& schedule, int microbatches, std::int64_t batch) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.microbatches = microbatches;
  o.batch = batch;
  return o;
}

void expect_refused(const run_setup& o, std::int64_t samples, const std::vector<std::string>& says) {
  const tiny_extras extras{.net = network_with_small_maps(), .samples = samples};
  for (const auto& words : says)
    EXPECT_THAT([&] { train_tiny(o, extras); }, ThrowsMessage<usage_error>(HasSubstr(words)));
}

TEST(SmallMicrobatches, OneValueAChannelIsRefusedByBatchMicrobatchesAndLayer) {
  expect_refused(options_of("gpipe", 8, 8), 40,
                 {"batch 8 in 8 micro-batches has one of 1 sample", "bn of small", "at most 4 micro-batches"});
  expect_refused(options_of("gpipe", 5, 8), 40, {"batch 8 in 5 micro-batches has one of 1 sample"});
  expect_refused(options_of("pipedream", 1, 1), 40, {"batch 1 in 1 micro-batch has one of 1 sample"});
  auto replicated = options_of("gpipe", 8, 8);
  replicated.replicas = {2};
  expect_refused(replicated, 40, {"batch 8 in 8 micro-batches"});
  auto oracle = options_of("1f1b", 8, 8);
  oracle.executor = actors::executor_kind::oracle;
  expect_refused(oracle, 40, {"batch 8 in 8 micro-batches"});
}

TEST(SmallMicrobatches, TailOfAnEpochIsRefusedWhereTheRunReachesIt) {
  expect_refused(options_of("pipedream", 1, 8), 41,
                 {"an epoch's last batch of 1 (the others have 8) in 1 micro-batch", "--last-batch drop"});
  expect_refused(options_of("gpipe", 2, 8), 43, {"an epoch's last batch of 3 (the others have 8) in 2 micro-batches"});
  expect_refused(options_of("gpipe", 4, 8), 42, {"an epoch's last batch of 2"});
  expect_refused(options_of("pipedream", 1, 8), 1, {"an epoch's last batch of 1"});
  auto o = options_of("pipedream", 1, 8);
  const tiny_extras extras{.net = network_with_small_maps(), .samples = 41};
  o.steps = 6; // the sixth is the tail
  EXPECT_THAT([&] { train_tiny(o, extras); }, ThrowsMessage<usage_error>(HasSubstr("last batch of 1")));
  o.steps = 5;
  EXPECT_EQ(train_tiny(o, extras).summary.steps, 5);
  o.steps = 0;
  o.last = actors::last_batch::drop;
  EXPECT_EQ(train_tiny(o, extras).summary.steps, 10);
}

TEST(SmallMicrobatches, WhatHasAVarianceIsTrained) {
  const tiny_extras extras{.net = network_with_small_maps(), .samples = 42};
  EXPECT_EQ(train_tiny(options_of("gpipe", 4, 8), {.net = network_with_small_maps(), .samples = 40}).summary.steps, 10);
  EXPECT_EQ(train_tiny(options_of("pipedream", 1, 8), extras).summary.steps, 12);
  EXPECT_EQ(train_tiny(options_of("gpipe", 8, 8)).summary.steps, 12) << "larger maps have values enough";
}

TEST(SmallMicrobatches, EvaluationTakesAnySize) {
  auto o = options_of("gpipe", 8, 8);
  o.eval_only = true;
  o.eval_batch = 1;
  EXPECT_EQ(train_tiny(o, {.net = network_with_small_maps()}).summary.evaluation->samples, 20);
}

TEST(LastBatch, DroppedLeavesTheSameWeightsInEveryScheduleAsTheOracle) {
  struct setting {
    const char* schedule;
    int microbatches;
    std::vector<int> replicas;
  };
  for (const auto& s : {setting{"pipedream", 1, {1, 1}}, setting{"pipedream", 1, {2, 1}}, setting{"gpipe", 3, {1, 1}},
                        setting{"1f1b", 2, {2, 1}}, setting{"2bw", 4, {1, 1, 1}}}) {
    auto o = options_of(s.schedule, s.microbatches, 8);
    o.replicas = s.replicas;
    const auto kept = train_tiny(o);
    o.last = actors::last_batch::drop;
    const auto dropped = train_tiny(o);
    EXPECT_EQ(kept.summary.steps, 12) << s.schedule;
    EXPECT_EQ(dropped.summary.steps, 10) << s.schedule;
    EXPECT_NE(dropped.summary.weights_sha256, kept.summary.weights_sha256);
    ASSERT_EQ(dropped.seen.steps.size(), 10U);
    EXPECT_EQ(dropped.seen.steps[4].epoch, 0);
    EXPECT_EQ(dropped.seen.steps[5].epoch, 1);
    ASSERT_EQ(dropped.seen.evaluations.size(), 2U);
    EXPECT_EQ(dropped.seen.evaluations[0].step, 5);
    EXPECT_EQ(dropped.seen.evaluations[1].found.samples, 20) << "evaluation leaves nothing out";
    o.executor = actors::executor_kind::oracle;
    EXPECT_EQ(train_tiny(o).summary.weights_sha256, dropped.summary.weights_sha256) << s.schedule;
  }
}

TEST(LastBatch, DroppingNothingChangesNoBit) {
  auto o = tiny_options();
  const auto kept = train_tiny(o, {.samples = 40});
  o.last = actors::last_batch::drop;
  EXPECT_EQ(train_tiny(o, {.samples = 40}).summary.weights_sha256, kept.summary.weights_sha256);
}

TEST(LastBatch, LearningRateEndsWithTheStepsThatAreLeft) {
  auto o = tiny_options();
  o.lr.name = "polynomial";
  o.lr.power = 1;
  o.last = actors::last_batch::drop;
  const auto seen = train_tiny(o).seen.steps;
  EXPECT_FLOAT_EQ(static_cast<float>(seen.back().learning_rate), 0.05F / 10);
}

TEST(LastBatch, ResumedRunGoesOnWhereItStoppedAndRefusesTheOtherKind) {
  const testing_support::temporary_folder folder;
  auto o = options_of("1f1b", 2, 8);
  o.last = actors::last_batch::drop;
  const auto straight = train_tiny(o);
  o.checkpoint = folder / "checkpoint";
  train_tiny(o, {.stop_at = 3});
  o.resume = true;
  auto other = o;
  other.last = actors::last_batch::keep;
  EXPECT_THAT([&] { train_tiny(other); },
              ThrowsMessage<usage_error>(AllOf(HasSubstr("last batch"), HasSubstr("drop"), HasSubstr("keep"))));
  EXPECT_EQ(train_tiny(o).summary.weights_sha256, straight.summary.weights_sha256);
}

TEST(LastBatch, DroppingAllThereIsIsRefused) {
  auto o = options_of("pipedream", 1, 64);
  o.last = actors::last_batch::drop;
  EXPECT_THAT([&] { train_tiny(o); },
              ThrowsMessage<usage_error>(HasSubstr("there is no other: 44 samples for batch 64")));
}

} // namespace
} // namespace penstock::testing
