// Models that are no image classifiers: integer inputs that later stages read, extents that vary from minibatch to
// minibatch, losses at several stages that are divided by other counts, minibatches in which nothing counts.
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_sequences.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

#include <set>

namespace penstock::testing {
namespace {

using actors::executor_kind;

run_setup options_of(const std::string& schedule, std::vector<int> replicas, int microbatches) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  o.microbatches = microbatches;
  return o;
}

tiny_extras extras_of(const tiny_sequences& data, const tiny_sequences& test) {
  return {.net = tiny_sequence_model(), .train = &data, .test = &test};
}

void expect_same_run(const training_result& found, const training_result& wanted) {
  EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
  EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
  ASSERT_EQ(found.seen.steps.size(), wanted.seen.steps.size());
  for (std::size_t i = 0; i < wanted.seen.steps.size(); ++i)
    EXPECT_EQ(found.seen.steps[i].loss, wanted.seen.steps[i].loss) << "step " << i;
  ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
  for (std::size_t i = 0; i < wanted.seen.evaluations.size(); ++i) {
    EXPECT_EQ(found.seen.evaluations[i].found.loss, wanted.seen.evaluations[i].found.loss);
    EXPECT_EQ(found.seen.evaluations[i].found.samples, wanted.seen.evaluations[i].found.samples);
  }
}

training_result oracle_of(run_setup o, const tiny_extras& extras) {
  o.executor = executor_kind::oracle;
  return train_tiny(o, extras);
}

struct setting {
  const char* schedule;
  std::vector<int> replicas;
  int microbatches;
};

const std::vector<setting> settings{{"pipedream", {1}, 1},         {"pipedream", {1, 1, 1}, 1},
                                    {"pipedream", {2, 1}, 1},      {"pipedream", {1, 2, 1}, 1},
                                    {"pipedream", {3}, 1},         {"1f1b", {1, 1, 1, 1}, 3},
                                    {"1f1b", {2, 1}, 2},           {"gpipe", {1, 1}, 4},
                                    {"2bw", {1, 1, 1}, 3},         {"zb-h1", {1, 1, 1}, 3},
                                    {"data-parallel", {2}, 2},     {"interleaved", {1, 1}, 2},
                                    {"model-parallel", {1, 1}, 1}, {"pipedream-vertical-sync", {1, 1, 1}, 1}};

TEST(Sequences, EveryScheduleLeavesTheOraclesBits) {
  const tiny_sequences data(44), test(20, 2);
  for (const auto& s : settings) {
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    const auto o = options_of(s.schedule, s.replicas, s.microbatches);
    expect_same_run(train_tiny(o, extras_of(data, test)), oracle_of(o, extras_of(data, test)));
  }
}

TEST(Sequences, AnUnreplicatedSynchronousScheduleIsOneStage) {
  const tiny_sequences data(44), test(20, 2);
  for (const int microbatches : {1, 3}) {
    const auto one = train_tiny(options_of("1f1b", {1}, microbatches), extras_of(data, test));
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      expect_same_run(train_tiny(options_of(schedule, {1, 1, 1, 1, 1}, microbatches), extras_of(data, test)), one);
  }
}

TEST(Sequences, RanksLeaveTheBitsOfOneProcess) {
  const tiny_sequences data(44), test(20, 2);
  for (const auto& s : settings) {
    if (s.replicas == std::vector<int>{1}) continue;
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    const auto o = options_of(s.schedule, s.replicas, s.microbatches);
    const auto whole = oracle_of(o, extras_of(data, test));
    int workers = 0;
    for (const int r : s.replicas)
      workers += r;
    for (const int ranks : {2, workers})
      expect_same_run(train_tiny_ranks(o, ranks, extras_of(data, test)), whole);
  }
}

TEST(Sequences, RecomputationDrawsTheSameDropoutForEveryLength) {
  const tiny_sequences data(44), test(20, 2);
  auto o = options_of("1f1b", {1, 1, 1}, 2);
  const auto kept = train_tiny(o, extras_of(data, test));
  o.recompute = {true, true, true};
  expect_same_run(train_tiny(o, extras_of(data, test)), kept);
}

// The mean of a minibatch is over its tokens, whatever its micro-batches have of them.
TEST(Sequences, MicrobatchesOfUnevenTokenCountsAddUpToTheirMinibatch) {
  const tiny_sequences data(44), test(20, 2);
  auto o = options_of("1f1b", {1}, 1);
  auto extras = extras_of(data, test);
  extras.net = tiny_sequence_model(0);
  o.optimizer.momentum = 0;
  o.steps = 5;
  const auto whole = train_tiny(o, extras);
  o.microbatches = 4;
  const auto parts = train_tiny(o, extras);
  ASSERT_EQ(parts.seen.steps.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(parts.seen.steps[i].loss, whole.seen.steps[i].loss, 2e-5 * whole.seen.steps[i].loss) << i;
}

TEST(Sequences, AMinibatchInWhichNothingCountsChangesNothingButTheVersion) {
  tiny_sequences data(44);
  const tiny_sequences test(20, 2);
  for (const auto& s : settings) {
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    const auto o = options_of(s.schedule, s.replicas, s.microbatches);
    data.uncounted = 2;
    expect_same_run(train_tiny(o, extras_of(data, test)), oracle_of(o, extras_of(data, test)));
  }
  auto o = options_of("1f1b", {1, 1}, 2);
  o.steps = 1;
  data.uncounted = 0;
  const auto after = train_tiny(o, extras_of(data, test));
  o.optimizer.weight_decay = 0.5F;
  EXPECT_EQ(train_tiny(o, extras_of(data, test)).summary.weights_sha256, after.summary.weights_sha256)
      << "not even decay";
  EXPECT_EQ(after.summary.stages.at(0).updates, 1);
  EXPECT_EQ(after.seen.steps.at(0).loss, 0);
  const auto ranks = options_of("pipedream", {2, 1}, 1);
  data.uncounted = 1;
  expect_same_run(train_tiny_ranks(ranks, 3, extras_of(data, test)), oracle_of(ranks, extras_of(data, test)));
}

TEST(Sequences, AChangeOfPlanInTheMiddleOfAnEpochIsReplayedByTheOracle) {
  const tiny_sequences data(44), test(20, 2);
  const auto o = options_of("1f1b", {1, 1}, 2);
  auto extras = extras_of(data, test);
  const auto undisturbed = train_tiny(o, extras);
  extras.changes = {{4, options_of("1f1b", {1, 1, 1}, 2)}};
  expect_same_run(train_tiny(o, extras), undisturbed);
}

TEST(Sequences, ShowWhatTheirLossesSay) {
  const tiny_sequences data(44), test(20, 2);
  const auto seen = train_tiny(options_of("pipedream", {1, 1, 1}, 1), extras_of(data, test)).seen;
  const auto names = [](const std::vector<shown_value>& shown) {
    std::vector<std::string> all;
    for (const auto& s : shown)
      all.push_back(s.name);
    return all;
  };
  EXPECT_THAT(names(seen.steps.at(0).shown), ::testing::ElementsAre("side_accuracy", "main_accuracy", "perplexity"));
  EXPECT_THAT(names(seen.evaluations.at(0).found.shown),
              ::testing::ElementsAre("side_accuracy", "top5", "main_accuracy", "perplexity"));
  EXPECT_EQ(seen.evaluations.at(0).found.samples, 20);
  ASSERT_EQ(seen.steps.at(0).rates.size(), 1U);
  EXPECT_EQ(seen.steps.at(0).rates[0].name, "tokens");
}

TEST(Sequences, DataThatDoesNotFitIsRefusedByName) {
  const tiny_sequences data(44);
  const random_images images(20, {3, 8, 8}, 5, 1);
  const auto refusal = [](const std::shared_ptr<const model>& net, const actors::dataset& train) {
    try {
      train_tiny(options_of("pipedream", {1}, 1), {.net = net, .train = &train, .test = &train});
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string("it ran");
  };
  EXPECT_EQ(refusal(tiny_sequence_model(), images), "data: sequences reads ids; this data has input, labels");
  EXPECT_EQ(refusal(tiny_residual_network(), data),
            "data: tiny reads input; this data has ids, lengths, labels, parity");
}

// -- tensors with several uses ---------------------------------------------------------

tiny_extras tied_extras(const tiny_sequences& data, const tiny_sequences& test) {
  return {.net = tiny_sequence_model(0.1F, true), .train = &data, .test = &test};
}

const std::vector<setting> for_ties{
    {"1f1b", {1, 1, 1, 1}, 3}, {"1f1b", {2, 1, 2}, 2},    {"gpipe", {1, 1}, 4},       {"2bw", {1, 1, 1}, 3},
    {"zb-h1", {1, 1, 1}, 3},   {"data-parallel", {2}, 2}, {"interleaved", {1, 1}, 2}, {"model-parallel", {1, 1}, 1},
    {"pipedream", {1}, 1},     {"pipedream", {2}, 1}};

TEST(Ties, AreCountedOnceAndKeepTheirOwnersName) {
  const auto tied = tiny_sequence_model(0, true);
  ASSERT_EQ(tied->ties().size(), 1U);
  EXPECT_EQ(tied->ties()[0].name, "embed.weight");
  EXPECT_EQ(tied->ties()[0].uses.size(), 4U);
  std::set<std::string> names;
  std::int64_t count = 0;
  for (int l = 0; l < static_cast<int>(tied->layers().size()); ++l)
    for (const auto& p : tied->parameters(l))
      if (names.insert(p.name).second) count += element_count(p.dims);
  EXPECT_EQ(tied->parameter_count(), count);
  const int end = static_cast<int>(tied->layers().size());
  EXPECT_EQ(tied->parameter_count(0, 3) + tied->parameter_count(3, end), count + element_count({11, 8}))
      << "each of two stages has the tensor";
  EXPECT_FALSE(names.contains("head.weight"));
  EXPECT_TRUE(names.contains("head.bias"));
}

TEST(Ties, EveryScheduleThatKeepsThemLeavesTheOraclesBits) {
  const tiny_sequences data(44), test(20, 2);
  for (const auto& s : for_ties)
    for (const double clip : {0.0, 0.05}) {
      const std::string schedule = s.schedule;
      if (clip > 0 && (schedule == "pipedream" || schedule == "2bw")) continue;
      SCOPED_TRACE(schedule + " on " + ::testing::PrintToString(s.replicas) + ", clip " + std::to_string(clip));
      auto o = options_of(s.schedule, s.replicas, s.microbatches);
      o.clip_norm = clip;
      expect_same_run(train_tiny(o, tied_extras(data, test)), oracle_of(o, tied_extras(data, test)));
    }
}

TEST(Ties, CutsBetweenTheUsesChangeNoBit) {
  const tiny_sequences data(44), test(20, 2);
  for (const double clip : {0.0, 0.05}) {
    auto o = options_of("1f1b", {1}, 2);
    o.clip_norm = clip;
    const auto one = train_tiny(o, tied_extras(data, test));
    for (const std::size_t stages : {2, 3, 5, 8}) {
      o.replicas.assign(stages, 1);
      expect_same_run(train_tiny(o, tied_extras(data, test)), one);
    }
  }
}

TEST(Ties, RanksLeaveTheBitsOfOneProcess) {
  const tiny_sequences data(44), test(20, 2);
  for (const auto& s : for_ties) {
    int workers = 0;
    for (const int r : s.replicas)
      workers += r;
    if (workers < 2) continue;
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    auto o = options_of(s.schedule, s.replicas, s.microbatches);
    const auto whole = oracle_of(o, tied_extras(data, test));
    for (const int ranks : {2, workers})
      expect_same_run(train_tiny_ranks(o, ranks, tied_extras(data, test)), whole);
  }
}

TEST(Ties, AChangeOfPlanMovesThem) {
  const tiny_sequences data(44), test(20, 2);
  const auto o = options_of("1f1b", {1, 1}, 2);
  auto extras = tied_extras(data, test);
  const auto undisturbed = train_tiny(o, extras);
  extras.changes = {{4, options_of("1f1b", {1, 1, 1}, 2)}, {7, options_of("1f1b", {1, 1}, 2)}};
  expect_same_run(train_tiny(o, extras), undisturbed);
  expect_same_run(train_tiny_ranks(o, 2, extras), undisturbed);
}

TEST(Ties, AResumedRunInTheMiddleOfAnEpochOfManyLengthsIsTheUndisturbedOne) {
  const tiny_sequences data(44), test(20, 2);
  for (const char* schedule : {"1f1b", "2bw"}) {
    auto o = options_of(schedule, {1, 1, 1}, 3);
    o.checkpoint_every = 5; // drains where the resumed run does
    const testing_support::temporary_folder all, parts;
    o.checkpoint = all.path() / "c";
    const auto whole = train_tiny(o, tied_extras(data, test));
    o.checkpoint = parts.path() / "c";
    auto first = o;
    first.steps = 5;
    first.lr.total_steps = o.lr.total_steps;
    train_tiny(first, tied_extras(data, test));
    o.resume = true;
    const auto resumed = train_tiny(o, tied_extras(data, test));
    EXPECT_EQ(resumed.summary.resumed_after, 5);
    EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256) << schedule;
    EXPECT_EQ(resumed.summary.state_sha256, whole.summary.state_sha256) << schedule;
  }
}

TEST(Ties, AreNotPartedWhereStagesUpdateApart) {
  const tiny_sequences data(44), test(20, 2);
  EXPECT_THAT(
      [&] {
        train_tiny(options_of("pipedream", {1, 1}, 1), tied_extras(data, test));
      },
      ::testing::ThrowsMessage<usage_error>(::testing::AllOf(
          ::testing::HasSubstr("embed.weight is used by embed on stage 0 and head on stage 1"),
          ::testing::HasSubstr("1f1b"), ::testing::HasSubstr("2bw"), ::testing::HasSubstr("--untied"))));
}

} // namespace
} // namespace penstock::testing
