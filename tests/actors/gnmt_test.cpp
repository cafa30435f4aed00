// A narrow GNMT over lengths that vary, through the schedules: what actors leave is what the oracle leaves.
#include "apps/models/registry.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"
#include "tests/support/tiny_translations.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using actors::executor_kind;

struct form {
  const char* name;
  std::map<std::string, std::string> own;
};

std::shared_ptr<const model> narrow(const form& f, double dropout = 0.2) {
  apps::model_options options{
      .width = 0.01, .dropout = dropout, .vocabulary = tiny_translations::vocabulary, .length = 6, .own = f.own};
  options.own["layers"] = "3";
  return std::make_shared<const model>(apps::find_model("gnmt_large").build(options));
}

struct setting {
  const char* schedule;
  std::vector<int> replicas;
  int microbatches;
};

class Gnmt : public ::testing::TestWithParam<form> {
protected:
  static bool is_tied() { return GetParam().own.contains("tied"); }

  run_setup options_of(const setting& s) {
    auto o = tiny_options();
    o.schedule = s.schedule;
    o.replicas = s.replicas;
    o.microbatches = s.microbatches;
    o.optimizer.name = "adam";
    o.lr.base = 0.01F;
    o.label_smoothing = 0.1F;
    return o;
  }
  tiny_extras extras() { return {.net = net_, .train = &data_, .test = &test_}; }
  training_result train(run_setup o, executor_kind executor = executor_kind::actors) {
    o.executor = executor;
    return train_tiny(o, extras());
  }

  std::shared_ptr<const model> net_ = narrow(GetParam());
  tiny_translations data_{44}, test_{20, 2};
};

void expect_same_run(const training_result& found, const training_result& wanted) {
  EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
  EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
  ASSERT_EQ(found.seen.steps.size(), wanted.seen.steps.size());
  for (std::size_t i = 0; i < wanted.seen.steps.size(); ++i)
    EXPECT_EQ(found.seen.steps[i].loss, wanted.seen.steps[i].loss) << "step " << i;
  ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
  for (std::size_t i = 0; i < wanted.seen.evaluations.size(); ++i)
    EXPECT_EQ(found.seen.evaluations[i].found.loss, wanted.seen.evaluations[i].found.loss);
}

TEST_P(Gnmt, EveryScheduleLeavesTheOraclesBits) {
  for (const auto& s :
       {setting{"pipedream", {1}, 1}, setting{"pipedream", {1, 1, 1, 1}, 1}, setting{"pipedream", {2, 1, 1}, 1},
        setting{"pipedream-vertical-sync", {1, 1, 1}, 1}, setting{"2bw", {1, 1, 1}, 3},
        setting{"1f1b", {1, 1, 1, 1, 1}, 3}, setting{"1f1b", {2, 1, 2}, 2}, setting{"gpipe", {1, 1}, 4},
        setting{"zb-h1", {1, 1, 1}, 3}, setting{"zb-h2", {1, 1, 1}, 3}, setting{"interleaved", {1, 1}, 2},
        setting{"data-parallel", {2}, 2}, setting{"model-parallel", {1, 1}, 1}}) {
    const bool is_apart = std::string_view(s.schedule).starts_with("pipedream") && s.replicas.size() > 1;
    if (is_tied() && is_apart) continue; // it is refused
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    expect_same_run(train(options_of(s)), train(options_of(s), executor_kind::oracle));
  }
}

TEST_P(Gnmt, AnUnreplicatedSynchronousScheduleIsOneStageWhereverItIsCut) {
  for (const double clip : {0.0, 0.05}) {
    auto o = options_of({"1f1b", {1}, 3});
    o.clip_norm = clip;
    const auto one = train(o);
    for (const auto& [schedule, stages] : {std::pair("1f1b", 2), {"1f1b", 7}, {"gpipe", 4}, {"zb-h1", 5}}) {
      o.schedule = schedule;
      o.replicas.assign(static_cast<std::size_t>(stages), 1);
      expect_same_run(train(o), one);
    }
  }
}

TEST_P(Gnmt, RecomputationDrawsTheSameDropout) {
  auto o = options_of({"1f1b", {1, 1, 1}, 2});
  const auto kept = train(o);
  o.recompute = {true, true, true};
  expect_same_run(train(o), kept);
}

TEST_P(Gnmt, RanksLeaveTheBitsOfOneProcess) {
  for (const auto& s : {setting{"2bw", {1, 1, 1}, 3}, setting{"1f1b", {2, 1}, 2}, setting{"pipedream", {2, 1}, 1}}) {
    if (is_tied() && std::string_view(s.schedule) == "pipedream") continue;
    SCOPED_TRACE(s.schedule);
    const auto o = options_of(s);
    expect_same_run(train_tiny_ranks(o, 3, extras()), train(o, executor_kind::oracle));
  }
}

TEST_P(Gnmt, AResumedRunInTheMiddleOfAnEpochAndAChangeOfPlanChangeNothing) {
  auto o = options_of({"1f1b", {1, 1, 1}, 2});
  o.checkpoint_every = 4;
  const testing_support::temporary_folder all, parts;
  o.checkpoint = all.path() / "c";
  const auto whole = train(o);
  auto changed = extras();
  changed.changes = {{4, options_of({"1f1b", {1, 1, 1, 1}, 2})}};
  auto without = o;
  without.checkpoint.clear();
  without.checkpoint_every = 0;
  EXPECT_EQ(train_tiny(without, changed).summary.weights_sha256, whole.summary.weights_sha256);
  o.checkpoint = parts.path() / "c";
  auto first = o;
  first.steps = 4;
  first.lr.total_steps = o.lr.total_steps;
  train(first);
  o.resume = true;
  const auto resumed = train(o);
  EXPECT_EQ(resumed.summary.resumed_after, 4);
  EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256);
}

INSTANTIATE_TEST_SUITE_P(Forms, Gnmt,
                         ::testing::Values(form{"Untied", {}}, form{"Tied", {{"tied", "yes"}}},
                                           form{"UntiedWithMlperfsPlaces", {{"dropout-places", "mlperf"}}}),
                         [](const auto& test) { return std::string(test.param.name); });

// Sentences are what it is divided by, so micro-batches of many tokens and of few add up.
TEST(GnmtRuns, MicrobatchesOfUnevenTokenCountsAddUpToTheirMinibatch) {
  const tiny_translations data(44), test(20, 2);
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.replicas = {1};
  o.steps = 5;
  o.optimizer.momentum = 0;
  const tiny_extras extras{.net = narrow({"", {}}, 0), .train = &data, .test = &test};
  o.microbatches = 1;
  const auto whole = train_tiny(o, extras);
  o.microbatches = 4;
  const auto parts = train_tiny(o, extras);
  ASSERT_EQ(parts.seen.steps.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(parts.seen.steps[i].loss, whole.seen.steps[i].loss, 2e-5 * whole.seen.steps[i].loss) << i;
}

TEST(GnmtRuns, TellTokens) {
  const tiny_translations data(44), test(20, 2);
  auto o = tiny_options();
  o.label_smoothing = 0.1F;
  const auto seen = train_tiny(o, {.net = narrow({"", {}}), .train = &data, .test = &test}).seen;
  const auto value = [](const std::vector<shown_value>& shown, const std::string& name) {
    for (const auto& s : shown)
      if (s.name == name) return s.value;
    return -1.0;
  };
  std::int64_t tokens = 0;
  for (std::int64_t s = 0; s < 8; ++s)
    tokens += data.target_length(s);
  const auto& step = seen.steps.at(0);
  EXPECT_NEAR(value(step.shown, "loss_per_token"), step.loss * 8 / static_cast<double>(tokens), 1e-6);
  EXPECT_NEAR(value(step.rates, "tokens"), step.samples_per_s / 8 * static_cast<double>(tokens), 1e-6);
  EXPECT_EQ(value(step.shown, "perplexity"), -1) << "smoothed, it is no likelihood";
  const auto& found = seen.evaluations.at(0).found;
  EXPECT_NEAR(value(found.shown, "perplexity"), std::exp(value(found.shown, "loss_per_token")), 1e-6)
      << "an evaluation's loss is without smoothing";
}

} // namespace
} // namespace penstock::testing
