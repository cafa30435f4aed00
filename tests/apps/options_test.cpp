// What the words of an app's command line become.
#include "apps/runner/options.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

app_options parse(std::vector<std::string> words) {
  std::string help;
  auto options = parse_options("lenet", words, help);
  return options.value();
}

TEST(Options, ReplicasGiveTheStageCount) {
  EXPECT_THAT(parse({"--replicas", "2,1,3"}).pipeline.replicas, testing::ElementsAre(2, 1, 3));
  EXPECT_THAT(parse({"--stages", "3"}).pipeline.replicas, testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(parse({"--stages", "2", "--replicas", "2,1"}).pipeline.replicas, testing::ElementsAre(2, 1));
  EXPECT_THROW(parse({"--stages", "3", "--replicas", "2,1"}), usage_error);
}

TEST(Options, CutsAloneGiveTheStageCount) {
  const auto options = parse({"--cuts", "conv2,fc1"});
  EXPECT_THAT(options.pipeline.replicas, testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(options.cuts, testing::ElementsAre("conv2", "fc1"));
  EXPECT_EQ(parse({"--plan", "auto", "--cuts", "conv2"}).plan.stages, 2);
  EXPECT_THROW(parse({"--cuts", "conv2,fc1", "--replicas", "2,1"}), usage_error);
}

TEST(Options, ChunksAreOfInterleavedAndGiveAStageEach) {
  const auto options = parse({"--schedule", "interleaved", "--stages", "2", "--chunks", "3"});
  EXPECT_THAT(options.pipeline.replicas, testing::ElementsAre(1, 1)) << "of each worker position";
  EXPECT_EQ(options.pipeline.chunks, 3);
  EXPECT_THAT(parse({"--schedule", "interleaved", "--cuts", "conv2,fc1,fc2"}).pipeline.replicas,
              testing::ElementsAre(1, 1))
      << "two chunks unless it is said";
  EXPECT_THROW(parse({"--schedule", "interleaved", "--cuts", "conv2,fc1"}), usage_error);
  EXPECT_THROW(parse({"--chunks", "2"}), usage_error);
}

TEST(Options, AdamwHasARateOfItsOwnUnlessOneIsGiven) {
  EXPECT_EQ(parse({}).run.lr.base, 0.01F);
  EXPECT_EQ(parse({"--optimizer", "adamw"}).run.lr.base, 0.001F);
  EXPECT_EQ(parse({"--optimizer", "adamw", "--lr", "0.01"}).run.lr.base, 0.01F);
}

TEST(Options, OptimizersAreToldWhatTheirPapersSay) {
  const auto bert = parse({"--optimizer", "adamw", "--beta1", "0.8", "--beta2", "0.98", "--epsilon", "1e-6",
                           "--no-bias-correction", "--clip-stage-norm", "0.5"});
  EXPECT_EQ(bert.run.optimizer.beta1, 0.8F);
  EXPECT_EQ(bert.run.optimizer.beta2, 0.98F);
  EXPECT_EQ(bert.run.optimizer.epsilon, 1e-6F);
  EXPECT_FALSE(bert.run.optimizer.bias_correction);
  EXPECT_EQ(bert.run.clip_stage_norm, 0.5);
  EXPECT_EQ(parse({"--optimizer", "adam"}).run.lr.base, 0.001F);
  const auto awd = parse({"--optimizer", "asgd", "--asgd-from", "700"});
  EXPECT_EQ(awd.run.optimizer.average_from, 700);
  EXPECT_EQ(awd.run.lr.base, 0.01F);
  EXPECT_EQ(parse({"--lr-schedule", "gnmt:until=0.5"}).run.lr.until, 0.5F);
  EXPECT_NO_THROW(parse({"--plan", "auto", "--clip-stage-norm", "1"}));
}

app_options parse_awd(std::vector<std::string> arguments) {
  std::string help;
  return parse_options("awd_lm", arguments, help).value();
}

TEST(Options, AModelBringsThePublishedRecipeWhereNothingIsSaid) {
  const auto usual = parse_awd({}).run;
  EXPECT_EQ(usual.batch, 20);
  EXPECT_EQ(usual.lr.base, 30);
  EXPECT_EQ(usual.optimizer.momentum, 0);
  EXPECT_EQ(usual.optimizer.weight_decay, 1.2e-6F);
  EXPECT_EQ(parse_awd({"--optimizer", "asgd"}).run.lr.base, 30);
  const auto adam = parse_awd({"--optimizer", "adam", "--batch", "8", "--weight-decay", "0"}).run;
  EXPECT_EQ(adam.lr.base, 0.001F);
  EXPECT_EQ(adam.batch, 8);
  EXPECT_EQ(adam.optimizer.weight_decay, 0);
}

TEST(Options, TheAsgdTriggerTakesSgdForWhatComesBefore) {
  const auto run = parse_awd({"--asgd-trigger", "5"}).run;
  EXPECT_EQ(run.optimizer.name, "asgd");
  EXPECT_EQ(run.asgd_patience, 5);
  EXPECT_EQ(run.lr.base, 30);
  const auto refusal = [](std::vector<std::string> arguments) {
    try {
      parse_awd(std::move(arguments));
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({"--asgd-trigger", "5", "--optimizer", "adam"}),
            "--asgd-trigger: found --optimizer adam, wanted asgd");
  EXPECT_EQ(refusal({"--asgd-trigger", "5", "--asgd-from", "7"}),
            "--asgd-trigger: decides when averages begin; leave --asgd-from out");
  EXPECT_EQ(refusal({"--asgd-trigger", "5", "--eval-every", "0"}),
            "--asgd-trigger: found --eval-every 0, wanted evaluations between epochs");
}

TEST(Options, ARecipeClipsAllGradientsWhereTheScheduleHasThemTogether) {
  const auto clips = [](std::vector<std::string> arguments) {
    const auto run = parse_awd(std::move(arguments)).run;
    return std::pair(run.clip_norm, run.clip_stage_norm);
  };
  using both = std::pair<double, double>;
  EXPECT_EQ(clips({}), both(0, 0.25)) << "pipedream";
  EXPECT_EQ(clips({"--schedule", "1f1b"}), both(0.25, 0));
  EXPECT_EQ(clips({"--plan", "some.json"}), both(0, 0.25));
  EXPECT_EQ(clips({"--plan", "auto:any"}), both(0, 0.25));
  EXPECT_EQ(clips({"--schedule", "1f1b", "--clip-norm", "0"}), both(0, 0));
  EXPECT_EQ(clips({"--schedule", "1f1b", "--clip-stage-norm", "1"}), both(0, 1));
}

TEST(Options, TheRateScheduleKeepsTheRateGiven) {
  const auto options = parse({"--lr", "0.5", "--lr-schedule", "step:every=10,gamma=0.5"});
  EXPECT_EQ(options.run.lr.name, "step");
  EXPECT_EQ(options.run.lr.step_every, 10);
  EXPECT_EQ(options.run.lr.base, 0.5F);
}

TEST(Options, SwitchesTurnTheirThingOff) {
  const auto options = parse({"--no-augment", "--no-replica-lr-scaling", "--no-decay-norm-bias",
                              "--keep-going-on-nonfinite", "--executor", "oracle"});
  EXPECT_FALSE(options.augment);
  EXPECT_FALSE(options.run.replica_lr_scaling);
  EXPECT_FALSE(options.run.decay_norm_bias);
  EXPECT_FALSE(options.run.stop_on_nonfinite);
  EXPECT_EQ(options.run.executor, actors::executor_kind::oracle);
}

TEST(Options, APlanThatIsSoughtKeepsTheScheduleUnlessAnyWillDo) {
  EXPECT_THAT(parse({"--plan", "auto"}).plan.schedules, testing::ElementsAre("pipedream"));
  EXPECT_THAT(parse({"--plan", "auto", "--schedule", "1f1b"}).plan.schedules, testing::ElementsAre("1f1b"));
  EXPECT_THAT(parse({"--plan", "auto:any"}).plan.schedules, testing::IsEmpty());
  EXPECT_THAT(parse({"--plan", "auto:any", "--schedule", "1f1b"}).plan.schedules, testing::ElementsAre("1f1b"));
  EXPECT_EQ(parse({"--plan", "auto:any"}).plan.source, "auto");
  EXPECT_THROW(parse({"--plan", "auto:all"}), usage_error);
  EXPECT_THROW(parse({"--plan", "auto", "--clip-norm", "1"}), usage_error);
  EXPECT_NO_THROW(parse({"--plan", "auto:any", "--clip-norm", "1"}));
  EXPECT_NO_THROW(parse({"--plan", "auto", "--schedule", "1f1b", "--clip-norm", "1"}));
}

TEST(Options, HelpIsGivenInsteadOfOptions) {
  std::string help;
  EXPECT_FALSE(parse_options("lenet", std::vector<std::string>{"--help"}, help).has_value());
  EXPECT_THAT(help, testing::HasSubstr("Pixels a side [28]"));
}

TEST(Options, CountsAreWholeNumbersWithCommasBetween) {
  EXPECT_THAT(parse_counts("--replicas", "1,22,3", 1), testing::ElementsAre(1, 22, 3));
  for (const char* bad : {"", ",", "1,", ",1", "1;2", "1, 2", "0", "-1", "1e3", "99999999999"})
    EXPECT_THROW(parse_counts("--replicas", bad, 1), usage_error) << bad;
}

} // namespace
} // namespace penstock::apps
