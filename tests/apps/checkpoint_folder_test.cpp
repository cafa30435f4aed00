// A checkpoint folder as its users meet it: two jobs, `--resume auto`, options that changed, drains that were not
// planned.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <sys/stat.h>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointFolder : public ::testing::Test {
protected:
  process_result run(const std::vector<std::string>& more) { return run_process(lenet(more), patience, at_folder()); }
  std::vector<std::string> lenet(std::vector<std::string> more) const {
    for (const auto* word : {"--eval-every", "-1", "--checkpoint", "ck", "--metrics", "m.jsonl"})
      more.emplace_back(word);
    return tiny_lenet(more);
  }
  process_options at_folder() const { return {.folder = folder_.path()}; }
  json summary() const { return json::parse(lines_of(read_text(folder_ / "m.jsonl")).back()); }
  int steps_in_metrics() const {
    int steps = 0;
    for (const auto& line : lines_of(read_text(folder_ / "m.jsonl")))
      steps += json::parse(line).at("event") == "step" ? 1 : 0;
    return steps;
  }
  temporary_folder folder_;
};

TEST_F(CheckpointFolder, ASecondRunIsRefusedInOneLineAndTheFirstGoesOn) {
  process first(lenet({"--epochs", "20000"}), at_folder());
  ASSERT_TRUE(first.wait_for_text(folder_ / "m.jsonl", R"("step":20,)", patience));
  for (const auto* resume : {"", "auto"}) {
    std::vector<std::string> more{"--metrics", "other.jsonl"};
    if (*resume != '\0') more.insert(more.end(), {"--resume", resume});
    const auto second = run_process(tiny_lenet([&] {
                                      more.insert(more.end(), {"--checkpoint", "ck"});
                                      return more;
                                    }()),
                                    patience, at_folder());
    EXPECT_EQ(second.exit_code, 1);
    ASSERT_EQ(second.error_lines().size(), 1U) << second.errors;
    EXPECT_THAT(second.errors, AllOf(HasSubstr("ck is in use by lenet, process " + std::to_string(first.id())),
                                     HasSubstr("name another folder")));
  }
  EXPECT_FALSE(fs::exists(folder_ / "other.jsonl"));
  first.send(SIGTERM);
  EXPECT_EQ(first.finish(patience).exit_code, 143);
  EXPECT_FALSE(fs::exists(folder_ / "ck/lock"));
}

// One command line for the first start, a requeue after a kill, and one after the end.
TEST_F(CheckpointFolder, ResumeAutoBeginsGoesOnAfterAKillAndHasNothingLeftAtTheEnd) {
  const std::vector<std::string> same{"--epochs", "200", "--checkpoint-every", "100",
                                      "--stages", "2",   "--resume",           "auto"};
  ASSERT_EQ(run(same).exit_code, 0);
  const auto whole = summary();
  fs::remove_all(folder_ / "ck");
  {
    process doomed(lenet(same), at_folder());
    ASSERT_TRUE(doomed.wait_until([&] { return fs::exists(folder_ / "ck/step-0000000200"); }, patience));
    doomed.send(SIGKILL);
    doomed.finish(patience);
  }
  const auto rest = run(same);
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, AllOf(HasSubstr("resumed after step"), Not(HasSubstr("changed since"))));
  EXPECT_EQ(summary().at("weights_sha256"), whole.at("weights_sha256"));
  EXPECT_EQ(summary().at("drains"), whole.at("drains"));
  EXPECT_GE(steps_in_metrics(), 1600); // appended, not begun again
  const auto none_left = run(same);
  EXPECT_EQ(none_left.exit_code, 0);
  EXPECT_THAT(none_left.output, HasSubstr("nothing to train: the checkpoint is of step 1600"));
  EXPECT_EQ(summary().at("weights_sha256"), whole.at("weights_sha256"));
}

TEST_F(CheckpointFolder, ResumeAutoTakesTheWeightsFileOnlyWhenItBegins) {
  ASSERT_EQ(
      run_process(tiny_lenet({"--steps", "1", "--save-weights", "w", "--seed", "5"}), patience, at_folder()).exit_code,
      0);
  const std::vector<std::string> same{"--weights", "w", "--resume=auto", "--steps"};
  const auto with = [&](const char* steps) {
    auto words = same;
    words.emplace_back(steps);
    return run(words);
  };
  EXPECT_EQ(with("4").exit_code, 0);
  fs::remove(folder_ / "w");
  const auto rest = with("8");
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, HasSubstr("resumed after step 4"));
}

TEST_F(CheckpointFolder, ResumeAloneStillWantsACheckpointAndAUsedFolderNamesTheWayOut) {
  EXPECT_EQ(run({"--steps", "2", "--resume"}).exit_code, 2);
  EXPECT_EQ(run({"--steps", "2"}).exit_code, 0);
  const auto again = run({"--steps", "2"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.errors, HasSubstr("--resume auto"));
  const auto wrong = run({"--resume", "often"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("--resume: found 'often', wanted auto, or no value"));
}

TEST_F(CheckpointFolder, EveryOptionThatChangedIsNamedWithTheJumpOfTheRate) {
  const std::vector<std::string> cosine{"--epochs", "9", "--lr", "0.1", "--lr-schedule", "cosine:warmup=2", "--steps"};
  const auto with = [&](std::vector<std::string> more) {
    auto words = cosine;
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  ASSERT_EQ(with({"8"}).exit_code, 0);
  const auto rest = with(
      {"16", "--resume", "--momentum", "0.5", "--weight-decay", "0.01", "--label-smoothing", "0.1", "--no-augment"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  for (const auto* change : {"--lr-schedule cosine:warmup=2 over 8 steps -> cosine:warmup=2 over 16 steps",
                             "--momentum 0.9 -> 0.5", "--weight-decay 0 -> 0.01", "--label-smoothing 0 -> 0.1",
                             "--no-augment no -> yes", "learning rate 0.006699 at step 8 -> 0.06113 at step 9"}) {
    EXPECT_THAT(rest.output, HasSubstr(std::string("changed since the checkpoint: ") + change));
    EXPECT_THAT(summary().at("changed_on_resume"), ::testing::Contains(change));
  }
  EXPECT_EQ(summary().at("changed_on_resume").size(), 6U);
}

TEST_F(CheckpointFolder, ALongerRunAtAConstantRateIsNoChange) {
  ASSERT_EQ(run({"--steps", "8"}).exit_code, 0);
  const auto rest = run({"--steps", "16", "--resume"});
  EXPECT_THAT(rest.output, Not(HasSubstr("changed since")));
  EXPECT_THAT(summary().at("changed_on_resume"), ElementsAre());
  EXPECT_THAT(summary().at("drains"), ElementsAre(8, 16));
  EXPECT_THAT(rest.output, HasSubstr("drains          after steps 8, 16"));
}

TEST_F(CheckpointFolder, ADrainOnRequestIsNamedUnderAnAsynchronousScheduleAlone) {
  for (const bool synchronous : {false, true}) {
    auto words = lenet({"--epochs", "20000", "--stages", "2"});
    if (synchronous) words.insert(words.end(), {"--schedule", "1f1b"});
    process app(words, at_folder());
    ASSERT_TRUE(app.wait_for_text(folder_ / "m.jsonl", R"("step":20,)", patience));
    app.send(SIGTERM);
    const auto result = app.finish(patience);
    EXPECT_EQ(result.exit_code, 143);
    EXPECT_EQ(result.output.find("the pipeline drained after step") == std::string::npos, synchronous);
    fs::remove_all(folder_ / "ck");
    fs::remove(folder_ / "m.jsonl");
  }
}

TEST_F(CheckpointFolder, AFolderRemovedInTheMiddleIsMadeAgain) {
  process app(lenet({"--epochs", "20000"}), at_folder());
  ASSERT_TRUE(app.wait_for_text(folder_ / "m.jsonl", R"("step":20,)", patience));
  fs::remove_all(folder_ / "ck");
  app.send(SIGTERM);
  EXPECT_EQ(app.finish(patience).exit_code, 143);
  EXPECT_EQ(run({"--epochs", "20000", "--steps", "1", "--resume"}).exit_code, 0);
}

TEST_F(CheckpointFolder, AFileInItsPlaceIsRefused) {
  std::ofstream(folder_ / "ck") << "x";
  const auto result = run({"--steps", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("--checkpoint"), HasSubstr("not a folder")));
}

TEST_F(CheckpointFolder, EvaluationReadsWhatARunningJobHasWritten) {
  process app(lenet({"--epochs", "20000", "--checkpoint-every", "50"}), at_folder());
  ASSERT_TRUE(app.wait_until([&] { return fs::exists(folder_ / "ck/latest"); }, patience));
  const auto seen = run_process(tiny_lenet({"--checkpoint", "ck", "--resume", "--eval-only"}), patience, at_folder());
  EXPECT_EQ(seen.exit_code, 0) << seen.errors;
  app.send(SIGTERM);
  EXPECT_EQ(app.finish(patience).exit_code, 143);
}

TEST_F(CheckpointFolder, APipeThatNobodyReadsIsNoMetricsFile) {
  ASSERT_EQ(::mkfifo((folder_ / "m.jsonl").c_str(), S_IRUSR | S_IWUSR), 0);
  const auto result = run({"--steps", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("--metrics"), HasSubstr("nobody reads")));
}

} // namespace
} // namespace penstock::test
