// State between minibatches: forward only, by batch column, the same numbers however stages, replicas, micro-batches,
// checkpoints and plans lie (DESIGN section 3).
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_sequences.hpp"
#include "tests/support/tiny_streams.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

struct setting {
  const char* schedule;
  std::vector<int> replicas;
  int microbatches;
};

run_setup options_of(const setting& s) {
  auto o = tiny_options();
  o.schedule = s.schedule;
  o.replicas = s.replicas;
  o.microbatches = s.microbatches;
  o.batch = 4;
  o.eval_batch = 3;
  o.lr.base = 0.5F;
  return o;
}

std::string text_of(const setting& s) {
  return std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas) +
         ", M = " + std::to_string(s.microbatches);
}

int workers_of(const setting& s) {
  int workers = 0;
  for (const int r : s.replicas)
    workers += r;
  return workers;
}

// Some 5 to 15 minibatches an epoch.
const tiny_stream& training_stream() {
  static const tiny_stream data(160);
  return data;
}
const tiny_stream& test_stream() {
  static const tiny_stream data(70, 2);
  return data;
}

tiny_extras extras_of(const tiny_stream& data = training_stream()) {
  return {.net = tiny_language_model(), .train = &data, .test = &test_stream()};
}

void expect_same_steps(const training_result& found, const training_result& wanted) {
  ASSERT_EQ(found.seen.steps.size(), wanted.seen.steps.size());
  for (std::size_t i = 0; i < wanted.seen.steps.size(); ++i)
    EXPECT_EQ(found.seen.steps[i].loss, wanted.seen.steps[i].loss) << "step " << i;
  EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
  EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
}

void expect_same_run(const training_result& found, const training_result& wanted) {
  expect_same_steps(found, wanted);
  ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
  for (std::size_t i = 0; i < wanted.seen.evaluations.size(); ++i)
    EXPECT_EQ(found.seen.evaluations[i].found.loss, wanted.seen.evaluations[i].found.loss) << "evaluation " << i;
}

training_result oracle_of(run_setup o, const tiny_extras& extras) {
  o.executor = executor_kind::oracle;
  return train_tiny(o, extras);
}

const std::vector<setting> settings{
    {"pipedream", {1}, 1},       {"pipedream", {1, 1, 1}, 1},   {"pipedream", {2, 1}, 1},
    {"pipedream", {1, 2, 1}, 1}, {"pipedream", {2, 3}, 1},      {"pipedream-naive", {1, 1}, 1},
    {"1f1b", {1, 1, 1, 1}, 3},   {"1f1b", {2, 1}, 2},           {"1f1b", {1, 2}, 4},
    {"gpipe", {1, 1}, 4},        {"2bw", {1, 1, 1}, 3},         {"2bw", {2, 1}, 4},
    {"zb-h1", {1, 1, 1}, 3},     {"zb-h2", {1, 1}, 2},          {"data-parallel", {2}, 2},
    {"interleaved", {1, 1}, 2},  {"model-parallel", {1, 1}, 1}, {"pipedream-vertical-sync", {1, 1, 1}, 1}};

TEST(CarriedState, EveryScheduleLeavesTheOraclesBits) {
  for (const auto& s : settings) {
    SCOPED_TRACE(text_of(s));
    const auto o = options_of(s);
    const auto found = train_tiny(o, extras_of());
    EXPECT_EQ(found.seen.evaluations.size(), 2U);
    expect_same_run(found, oracle_of(o, extras_of()));
  }
}

TEST(CarriedState, RanksLeaveTheBitsOfOneProcess) {
  for (const auto& s : settings) {
    if (workers_of(s) < 2) continue;
    SCOPED_TRACE(text_of(s));
    const auto o = options_of(s);
    const auto whole = oracle_of(o, extras_of());
    expect_same_run(train_tiny_ranks(o, 2, extras_of()), whole);
    if (workers_of(s) > 2) expect_same_run(train_tiny_ranks(o, std::min(4, workers_of(s)), extras_of()), whole);
  }
}

TEST(CarriedState, AnUnreplicatedSynchronousScheduleIsOneStage) {
  for (const int microbatches : {1, 3}) {
    const auto one = train_tiny(options_of({"1f1b", {1}, microbatches}), extras_of());
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      expect_same_run(train_tiny(options_of({schedule, {1, 1, 1, 1, 1}, microbatches}), extras_of()), one);
  }
}

TEST(CarriedState, RecomputationReadsWhatTheForwardRead) {
  for (const auto& s : {setting{"1f1b", {1, 1, 1}, 2}, setting{"pipedream", {1, 2, 1}, 1}}) {
    auto o = options_of(s);
    const auto kept = train_tiny(o, extras_of());
    o.recompute = {true, true, true};
    expect_same_run(train_tiny(o, extras_of()), kept);
    expect_same_run(oracle_of(o, extras_of()), kept);
  }
}

// With weights that stay, minibatches of a few tokens are one long sequence cut into pieces.
TEST(CarriedState, MakesOneLongSequenceOfManyMinibatches) {
  auto longer = training_stream();
  longer.lengths = {100};
  for (const auto& s : {setting{"1f1b", {1, 1}, 2}, setting{"pipedream", {2, 1}, 1}}) {
    auto o = options_of(s);
    o.lr.base = 0;
    o.epochs = 1;
    auto extras = extras_of();
    extras.net = tiny_language_model(0);
    const auto mean_of = [&](const tiny_stream& data) {
      extras.train = &data;
      const auto found = train_tiny(o, extras);
      const int blocks = s.replicas[0] == 2 ? 2 : 1;
      const auto list = data.minibatches({.batch = o.batch, .column_blocks = blocks});
      double sum = 0, tokens = 0;
      for (std::size_t i = 0; i < found.seen.steps.size(); ++i) {
        const auto counted = list->facts(static_cast<std::int64_t>(i)).counts[1];
        sum += found.seen.steps[i].loss * counted;
        tokens += counted;
      }
      EXPECT_EQ(found.seen.steps.size(), static_cast<std::size_t>(list->per_epoch()));
      return sum / tokens;
    };
    const auto whole = mean_of(longer);
    EXPECT_NEAR(mean_of(training_stream()), whole, 1e-6 * whole);
    extras.net = tiny_language_model(0, false);
    EXPECT_THROW(mean_of(training_stream()), usage_error) << "nothing is carried";
  }
}

TEST(CarriedState, AnEvaluationBeginsWithZerosAndIsOneLongSequenceToo) {
  auto longer = test_stream();
  longer.lengths = {100};
  auto o = options_of({"pipedream", {2, 1}, 1});
  o.epochs = 1;
  auto extras = extras_of();
  const auto found = train_tiny(o, extras);
  extras.test = &longer;
  const auto whole = train_tiny(o, extras);
  ASSERT_EQ(found.seen.evaluations.size(), 1U);
  const auto wanted = whole.seen.evaluations.at(0).found.loss;
  EXPECT_NEAR(found.seen.evaluations[0].found.loss, wanted, 1e-6 * wanted);
}

TEST(CarriedState, AnEvaluationInBetweenChangesNoTrainingNumber) {
  for (const auto& s : {setting{"1f1b", {2, 1}, 2}, setting{"gpipe", {1, 1}, 2}}) {
    auto o = options_of(s);
    o.epochs = 3;
    const auto evaluated = train_tiny(o, extras_of());
    EXPECT_EQ(evaluated.seen.evaluations.size(), 3U);
    o.eval_every = -1;
    expect_same_steps(train_tiny(o, extras_of()), evaluated);
  }
}

// -- checkpoints ---------------------------------------------------------------------

run_setup in_folder(run_setup o, const testing_support::temporary_folder& folder) {
  o.checkpoint = folder.path() / "c";
  return o;
}

TEST(CarriedState, AResumedRunInTheMiddleOfAnEpochIsTheUndisturbedOne) {
  for (const auto& s : {setting{"1f1b", {1, 1, 1}, 3}, setting{"1f1b", {2, 1}, 2}, setting{"pipedream", {1, 2, 1}, 1},
                        setting{"2bw", {1, 1, 1}, 3}}) {
    SCOPED_TRACE(text_of(s));
    auto o = options_of(s);
    o.checkpoint_every = 3; // moved up to 4 where there are two blocks
    const testing_support::temporary_folder all, parts;
    const auto whole = train_tiny(in_folder(o, all), extras_of());
    const bool is_moved = s.replicas != std::vector<int>{1, 1, 1};
    EXPECT_EQ(whole.seen.checkpoints.at(0), is_moved ? 4 : 3);
    const auto said =
        "drains are moved up to the next multiple of 2 minibatches, so that each batch column keeps to one "
        "replica of every stage";
    EXPECT_EQ(std::count(whole.seen.notes.begin(), whole.seen.notes.end(), said), is_moved ? 1 : 0);
    auto first = in_folder(o, parts);
    first.steps = whole.seen.checkpoints.at(0);
    first.lr.total_steps = o.lr.total_steps;
    train_tiny(first, extras_of());
    auto second = in_folder(o, parts);
    second.resume = true;
    for (const bool ranks : {false, true}) {
      const testing_support::temporary_folder copy;
      std::filesystem::copy(parts.path(), copy.path() / "p", std::filesystem::copy_options::recursive);
      second.checkpoint = copy.path() / "p" / "c";
      const auto resumed = ranks ? train_tiny_ranks(second, 2, extras_of()) : train_tiny(second, extras_of());
      EXPECT_EQ(resumed.summary.resumed_after, first.steps);
      EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256);
      EXPECT_EQ(resumed.summary.state_sha256, whole.summary.state_sha256);
    }
  }
}

// Where an asynchronous run drains is part of its weights and moments, but not of what it carries.
void stay_as_drawn(run_setup& o) {
  o.lr.base = 0;
  o.optimizer.momentum = 0;
}

// Dealing begins anew with the resumed run: columns come to other replicas, there and at its first drain.
TEST(CarriedState, AStopBetweenTimeBlocksSavesEachColumn) {
  for (const auto& s : {setting{"pipedream", {2, 1}, 1}, setting{"pipedream", {2, 3}, 1}}) {
    SCOPED_TRACE(text_of(s));
    auto o = options_of(s);
    stay_as_drawn(o);
    o.checkpoint_every = 8;
    const testing_support::temporary_folder never;
    const auto undisturbed = train_tiny(in_folder(o, never), extras_of());
    for (const std::int64_t stop : {3, 5}) {
      const testing_support::temporary_folder folder;
      auto first = in_folder(o, folder);
      first.steps = stop;
      train_tiny(first, extras_of());
      auto second = in_folder(o, folder);
      second.resume = true;
      const testing_support::temporary_folder copy;
      std::filesystem::copy(folder.path(), copy.path() / "p", std::filesystem::copy_options::recursive);
      const auto oracle = oracle_of(second, extras_of());
      second.checkpoint = copy.path() / "p" / "c";
      const auto resumed = train_tiny_ranks(second, 2, extras_of());
      expect_same_run(resumed, oracle);
      EXPECT_EQ(resumed.summary.state_sha256, undisturbed.summary.state_sha256) << "stopped after " << stop;
      for (std::size_t i = 0; i < resumed.seen.steps.size(); ++i)
        EXPECT_EQ(resumed.seen.steps[i].loss, undisturbed.seen.steps[i + static_cast<std::size_t>(stop)].loss)
            << "stopped after " << stop << ", step " << i;
    }
  }
}

TEST(CarriedState, ASignalStopsAnywhereAndACheckpointOnRequestWaitsForTheRound) {
  auto o = options_of({"pipedream", {3, 1}, 1});
  stay_as_drawn(o);
  auto extras = extras_of();
  const auto undisturbed = train_tiny(o, extras);
  const testing_support::temporary_folder folder;
  o = in_folder(o, folder);
  extras.checkpoint_at = 2;
  extras.at_step = [](std::int64_t step, actors::run_control& control) {
    if (step == 14) control.stop = true;
  };
  const auto stopped = train_tiny(o, extras);
  ASSERT_FALSE(stopped.seen.checkpoints.empty());
  EXPECT_EQ(stopped.seen.checkpoints.front() % 3, 0);
  EXPECT_EQ(stopped.summary.end, actors::run_end::interrupted);
  auto again = o;
  again.resume = true;
  const auto resumed = train_tiny(again, extras_of());
  EXPECT_EQ(resumed.summary.steps, static_cast<std::int64_t>(undisturbed.seen.steps.size()));
  EXPECT_EQ(resumed.summary.state_sha256, undisturbed.summary.state_sha256);
}

TEST(CarriedState, IsRefusedForOtherReplicasThanItsColumnsAllow) {
  const auto refusal_of = [](const run_setup& o, const tiny_extras& extras = extras_of()) -> std::string {
    try {
      train_tiny(o, extras);
    } catch (const usage_error& e) {
      return e.what();
    }
    return "it ran";
  };
  EXPECT_THAT(refusal_of(options_of({"1f1b", {2, 1}, 3})),
              AllOf(HasSubstr("stage 0 has 2 replicas"), HasSubstr("3 micro-batches"), HasSubstr("--microbatches 4")));
  EXPECT_THAT(refusal_of(options_of({"gpipe", {1, 2}, 1})), HasSubstr("wanted --microbatches 2"));
  EXPECT_THAT(refusal_of(options_of({"2bw", {1, 2}, 3})), HasSubstr("wanted --microbatches 4"));
  const testing_support::temporary_folder folder;
  auto o = in_folder(options_of({"pipedream", {2, 1}, 1}), folder);
  o.steps = 3;
  train_tiny(o, extras_of());
  auto other = in_folder(options_of({"pipedream", {3, 1}, 1}), folder);
  other.resume = true;
  EXPECT_THAT(refusal_of(other), AllOf(HasSubstr("8 batch columns in 2 blocks"), HasSubstr("divide 2")));
  auto fewer = in_folder(options_of({"pipedream", {1, 1, 1}, 1}), folder);
  fewer.resume = true;
  EXPECT_EQ(refusal_of(fewer), "it ran");

  const tiny_sequences sentences(44);
  EXPECT_THAT(refusal_of(options_of({"1f1b", {1}, 1}), {.net = tiny_language_model(), .train = &sentences}),
              HasSubstr("data:"));
  EXPECT_THAT(refusal_of(options_of({"1f1b", {1}, 1}),
                         {.net = tiny_language_model(0, false), .train = &training_stream(), .test = &test_stream()}),
              AllOf(HasSubstr("its minibatches continue each other in 4 columns"), HasSubstr("language")));
}

// -- changes of plan -------------------------------------------------------------------

TEST(CarriedState, AChangeOfPlanInTheMiddleOfAnEpochMovesIt) {
  const auto o = options_of({"1f1b", {1, 1}, 2});
  const auto undisturbed = train_tiny(o, extras_of());
  auto extras = extras_of();
  extras.changes = {{2, options_of({"1f1b", {1, 1, 1}, 2})}, {4, options_of({"gpipe", {1, 1}, 2})}};
  expect_same_run(train_tiny(o, extras), undisturbed);
  expect_same_run(train_tiny_ranks(o, 2, extras), undisturbed);
  extras.changes = {{3, options_of({"1f1b", {2, 1}, 2})}, {5, options_of({"1f1b", {1, 2, 1}, 4})}};
  const auto replicated = oracle_of(o, extras);
  expect_same_run(train_tiny(o, extras), replicated);
  expect_same_run(train_tiny_ranks(o, 2, extras), replicated);
}

TEST(CarriedState, AChangeOfPlanMovesColumnsBetweenReplicas) {
  const auto o = options_of({"pipedream", {2, 1}, 1});
  auto extras = extras_of();
  extras.changes = {{3, options_of({"pipedream", {1, 2}, 1})}, {8, options_of({"pipedream", {1, 1, 1}, 1})}};
  const auto oracle = oracle_of(o, extras);
  ASSERT_EQ(oracle.summary.plan_changes.size(), 2U);
  EXPECT_EQ(oracle.summary.plan_changes[0].step, 4) << "moved up to a round of two";
  expect_same_run(train_tiny(o, extras), oracle);
  for (const int ranks : {2, 3})
    expect_same_run(train_tiny_ranks(o, ranks, extras), oracle);
  extras.changes = {{4, options_of({"pipedream", {3, 1}, 1})}};
  const auto refused = train_tiny(o, extras);
  EXPECT_TRUE(refused.summary.plan_changes.empty());
  EXPECT_THAT(refused.seen.notes, Contains(AllOf(HasSubstr("the plan was not changed after step 4"),
                                                 HasSubstr("stage 0 has 3 replicas"), HasSubstr("2 blocks"))));
}

// -- rates -------------------------------------------------------------------------------

TEST(CarriedState, ARateOfAMinibatchIsAFactorOfItsUpdate) {
  auto rated = training_stream();
  rated.rated = true;
  for (const auto& s : settings) {
    SCOPED_TRACE(text_of(s));
    const auto o = options_of(s);
    expect_same_run(train_tiny(o, extras_of(rated)), oracle_of(o, extras_of(rated)));
  }
  auto o = options_of({"1f1b", {1, 1}, 2});
  o.steps = 5;
  const auto whole = train_tiny(o, extras_of(rated));
  EXPECT_NE(whole.summary.weights_sha256, train_tiny(o, extras_of()).summary.weights_sha256);
  const auto list = rated.minibatches({.batch = o.batch});
  const testing_support::temporary_folder folder;
  auto by_hand = in_folder(o, folder);
  std::string last;
  for (std::int64_t m = 0; m < 5; ++m) {
    by_hand.steps = m + 1;
    by_hand.lr.base = o.lr.base * static_cast<float>(list->rate(m));
    EXPECT_EQ(whole.seen.steps.at(static_cast<std::size_t>(m)).learning_rate, by_hand.lr.base);
    last = train_tiny(by_hand, extras_of()).summary.weights_sha256;
    by_hand.resume = true;
  }
  EXPECT_EQ(whole.summary.weights_sha256, last);
}

} // namespace
} // namespace penstock::testing
