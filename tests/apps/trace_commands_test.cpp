// Every `penstock trace` command reads what real runs leave: many evaluations, checkpoints, drains, ranks, resumes.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class traced_runs {
public:
  /// The apps' own words for several processes come first where there are any.
  std::vector<std::string> lenet(int processes, const std::vector<std::string>& arguments) const {
    std::vector<std::string> all;
    if (processes > 1) all = program("penstock", {"launch", "-np", std::to_string(processes), "--"});
    auto app = tiny_lenet({"--trace", "t.pftrace"});
    all.insert(all.end(), app.begin(), app.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  void run(int processes, const std::vector<std::string>& arguments) const {
    const auto result = run_process(lenet(processes, arguments), patience, {.folder = folder.path()});
    ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
  }

  process_result trace(std::vector<std::string> words) const {
    words.insert(words.begin(), "trace");
    return run_process(program("penstock", std::move(words)), patience, {.folder = folder.path()});
  }

  void expect_readable(const std::vector<std::string>& words) const {
    const auto result = trace(words);
    EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(words) << result.output << result.errors;
    EXPECT_EQ(result.errors, "") << testing::PrintToString(words);
    EXPECT_NE(result.output, "") << testing::PrintToString(words);
    if (words.back() == "--json") {
      EXPECT_FALSE(json::parse(result.output).empty());
    }
  }

  /// `minibatch`: one of the run's.
  void expect_every_command_reads_it(int minibatch = 0) const {
    const auto number = std::to_string(minibatch);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"summary", "t.pftrace"},
                                                  {"summary", "t.pftrace", "--json"},
                                                  {"timeline", "t.pftrace"},
                                                  {"timeline", "t.pftrace", "--from", number, "--to", number},
                                                  {"lifeline", "t.pftrace", number},
                                                  {"check", "t.pftrace"},
                                                  {"diff", "t.pftrace", "t.pftrace"},
                                                  {"diff", "t.pftrace", "t.pftrace", "--json"}})
      expect_readable(words);
  }

  temporary_folder folder;
};

struct traced_layout {
  std::string name;
  int processes = 1;
  std::vector<std::string> arguments;
};

class TraceOfARun : public testing::TestWithParam<traced_layout> {};

TEST_P(TraceOfARun, WithManyEvaluationsAndCheckpointsIsReadByEveryCommand) {
  const traced_runs runs;
  auto arguments = GetParam().arguments;
  arguments.insert(arguments.end(),
                   {"--epochs", "6", "--eval-every", "1", "--checkpoint", "ck", "--checkpoint-every", "5"});
  runs.run(GetParam().processes, arguments);
  runs.expect_every_command_reads_it(40);
  const auto summary = json::parse(runs.trace({"summary", "t.pftrace", "--json"}).output);
  EXPECT_TRUE(summary.at("complete"));
  EXPECT_EQ(summary.at("dropped"), 0);
  EXPECT_EQ(summary.at("source").at("admitted"),
            summary.at("minibatches").get<int>() * summary.at("microbatches").get<int>());
  for (const auto& stage : summary.at("stages")) {
    double sum =
        stage.at("busy").get<double>() + stage.at("evaluate").get<double>() + stage.at("all_reduce").get<double>();
    for (const auto& wait : stage.at("waits"))
      sum += wait.get<double>();
    EXPECT_LE(sum, 1 + 1e-9) << stage.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TraceOfARun,
    testing::Values(traced_layout{"OneStage", 1, {}},
                    traced_layout{"MicroBatches", 1, {"--stages", "3", "--schedule", "1f1b", "--microbatches", "4"}},
                    traced_layout{"SplitBackward", 2, {"--stages", "3", "--schedule", "zb-h2", "--microbatches", "4"}},
                    traced_layout{"TwoVersions", 1, {"--replicas", "2,1", "--schedule", "2bw", "--microbatches", "4"}},
                    traced_layout{"Replicas", 1, {"--replicas", "2,1,2"}},
                    traced_layout{"TwoRanks", 2, {"--stages", "2"}},
                    traced_layout{"ThreeRanks", 3, {"--replicas", "2,1"}}),
    [](const auto& each) { return each.param.name; });

TEST(TraceOfRuns, OnesThatWereToldToCheckpointAndToEndAreRead) {
  const traced_runs runs;
  const std::vector<std::string> endless{"--stages",     "2",  "--epochs",  "20000",  "--eval-every", "1",
                                         "--checkpoint", "ck", "--metrics", "m.jsonl"};
  process app(runs.lenet(1, endless), {.folder = runs.folder.path()});
  for (int checkpoint = 0; checkpoint < 3; ++checkpoint) {
    const auto written = lines_of(read_text(runs.folder / "m.jsonl")).size();
    ASSERT_TRUE(
        app.wait_until([&] { return lines_of(read_text(runs.folder / "m.jsonl")).size() > written + 40; }, patience));
    app.send(SIGUSR1);
  }
  ASSERT_TRUE(app.wait_for_text(runs.folder / "m.jsonl", R"("epoch":7)", patience));
  app.send(SIGINT);
  EXPECT_EQ(app.finish(patience).exit_code, 130);
  runs.expect_every_command_reads_it(3);
}

TEST(TraceOfRuns, ResumedOnesAreReadFromTheirFirstMinibatch) {
  const traced_runs runs;
  runs.run(1, {"--stages", "2", "--steps", "20", "--checkpoint", "ck"});
  runs.run(2, {"--stages", "2", "--epochs", "8", "--eval-every", "1", "--checkpoint", "ck", "--resume"});
  runs.expect_every_command_reads_it(40);
  EXPECT_THAT(runs.trace({"lifeline", "t.pftrace", "3"}).errors, HasSubstr("only 20 to 63"));
}

TEST(TraceOfRuns, OneWithoutTrainingHasASummaryAndSaysWhatItLacks) {
  const traced_runs runs;
  runs.run(1, {"--stages", "2", "--eval-only"});
  runs.expect_readable({"summary", "t.pftrace"});
  runs.expect_readable({"check", "t.pftrace"});
  runs.expect_readable({"diff", "t.pftrace", "t.pftrace"});
  const auto timeline = runs.trace({"timeline", "t.pftrace"});
  EXPECT_EQ(timeline.exit_code, 1);
  EXPECT_EQ(timeline.errors, "penstock: trace: the trace holds no training: the run had no minibatch\n");
}

TEST(TraceOfRuns, OnesThatWereKilledAreReadAsFarAsTheyGo) {
  const traced_runs runs;
  process app(runs.lenet(1, {"--stages", "2", "--epochs", "20000", "--eval-every", "1", "--metrics", "m.jsonl"}),
              {.folder = runs.folder.path()});
  ASSERT_TRUE(app.wait_for_text(runs.folder / "m.jsonl", R"("epoch":7)", patience));
  ASSERT_TRUE(app.wait_until([&] { return runs.trace({"lifeline", "t.pftrace", "20"}).exit_code == 0; }, patience));
  app.send(SIGKILL);
  EXPECT_EQ(app.finish(patience).ended_by, SIGKILL);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"timeline", "t.pftrace"}, {"lifeline", "t.pftrace", "20"}}) {
    const auto result = runs.trace(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("warning: the trace is incomplete: "));
  }
  const auto summary = runs.trace({"summary", "t.pftrace"});
  EXPECT_EQ(summary.exit_code, 0) << summary.errors;
  EXPECT_THAT(summary.output, HasSubstr("the trace is incomplete: "));
  const auto check = runs.trace({"check", "t.pftrace"});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_THAT(check.errors, HasSubstr("the trace is incomplete: "));
}

} // namespace
} // namespace penstock::test
