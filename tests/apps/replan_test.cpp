// `--replan`, `--control` and `penstock replan` as a person uses them, and what is refused of them.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <regex>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

class Replan : public testing::Test {
protected:
  Replan() {
    write("two.json", {{"stages", json::array({stage("conv1", "pool2"), stage("flatten", "fc3")})}});
    write("sync.json", {{"schedule", "1f1b"}, {"stages", json::array({stage("conv1", "fc3")})}});
  }
  static json stage(const std::string& first, const std::string& last) {
    return {{"first_layer", first}, {"last_layer", last}};
  }
  void write(const std::string& name, const json& plan) const { std::ofstream(folder_ / name) << plan.dump(); }
  process_options with_secret(const std::string& secret = "a secret of this test") const {
    return {.folder = folder_.path(), .variables = {{"PENSTOCK_SECRET", secret}}};
  }
  process_result run(const std::vector<std::string>& command, const process_options& options) const {
    return run_process(command, patience, options);
  }
  void expect_refusal(const std::vector<std::string>& command, const process_options& options, int exit_code,
                      const std::string& words) const {
    const auto result = run(command, options);
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(words));
  }
  /// Its output goes to a file, where the port that it listens at is found.
  std::vector<std::string> into_log(const std::vector<std::string>& command) const {
    std::vector<std::string> all{"sh", "-c", "exec \"$@\" > log", "sh"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  std::string port_of(process& job) const {
    if (!job.wait_for_text(folder_ / "log", "FILE)\n", patience)) return "nothing";
    const auto log = read_text(folder_ / "log");
    std::smatch found;
    std::regex_search(log, found, std::regex("changes of plan are asked for at 127\\.0\\.0\\.1:([0-9]+) "));
    return found.empty() ? "nothing in " + log : found[1].str();
  }

  static std::string hash_of(const process_result& result) {
    const auto at = result.output.find("weights_sha256");
    return at == std::string::npos ? result.output + result.errors : result.output.substr(at, 160);
  }

  temporary_folder folder_;
  const std::vector<std::string> long_run_ =
      tiny_lenet({"--steps", "100000000", "--eval-every", "-1", "--control", "0"});
};

TEST_F(Replan, IsSaidByHelpDryRunAndPrintConfig) {
  const auto help = run(program("lenet", {"--help"}), {});
  EXPECT_THAT(help.output, AllOf(HasSubstr("--replan STEP:FILE"), HasSubstr("--control PORT|HOST:PORT")));
  const auto config = run(program("lenet", {"--print-config", "--replan", "4:two.json", "--control", "7001"}), {});
  const auto all = json::parse(config.output);
  EXPECT_EQ(all.at("replan"), json::array({"4:two.json"}));
  EXPECT_EQ(all.at("control"), "7001");
  const auto dry =
      run(tiny_lenet({"--dry-run", "--steps", "9", "--replan", "4:two.json", "--control", "7001"}), with_secret());
  EXPECT_EQ(dry.exit_code, 0) << dry.errors;
  EXPECT_THAT(dry.output, AllOf(HasSubstr("after step 4: conv1..pool2 x1 | flatten..fc3 x1, pipedream"),
                                HasSubstr("asked for at 127.0.0.1, port 7001")));
}

TEST_F(Replan, WhatCannotBeIsRefusedBeforeTraining) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    auto arguments = more;
    arguments.insert(arguments.begin(), {"--steps", "9"});
    expect_refusal(tiny_lenet(arguments), with_secret(), 2, words);
  };
  refused({"--replan", "4"}, "--replan: found '4', wanted STEP:FILE");
  refused({"--replan", "4:two.json", "--replan", "4:sync.json"}, "two plans after step 4");
  refused({"--replan", "9:two.json"}, "--replan: after step 9: two.json: the run ends after step 9");
  refused({"--replan", "4:sync.json"}, "--replan: after step 4: sync.json: the plan's schedule is 1f1b");
  const auto vgg = run(program("vgg16", {"--dry-run", "--steps", "9", "--replan", "4:two.json"}), with_secret());
  EXPECT_EQ(vgg.exit_code, 2);
  EXPECT_THAT(vgg.errors, HasSubstr("two.json"));
  write("wide.json", {{"stages", json::array({stage("features.0", "features.30"), stage("avgpool", "classifier.6")})}});
  const auto wide = run(program("vgg16", {"--dry-run", "--width", "16", "--image-size", "224", "--steps", "9",
                                          "--replan", "4:wide.json"}),
                        with_secret());
  EXPECT_EQ(wide.exit_code, 2) << wide.output;
  EXPECT_THAT(wide.errors, HasSubstr("of memory on this machine")) << "a width of 16 has 35 billion weights";
}

TEST_F(Replan, ControlNeedsASecretAndAFreePort) {
  const process_options none{.folder = folder_.path()};
  expect_refusal(tiny_lenet({"--control", "0", "--steps", "2"}), none, 2, "--control needs a secret");
  expect_refusal(program("penstock", {"replan", "--control", "7001", "two.json"}), none, 2, "replan needs a secret");
}

TEST_F(Replan, TheToolSaysWhatItWants) {
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& words) {
    std::vector<std::string> all{"replan"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    expect_refusal(program("penstock", all), with_secret(), code, words);
  };
  refused({}, 2, "no plan is given");
  refused({"two.json"}, 2, "--control: ");
  refused({"--control", "0", "two.json"}, 2, "--control: found '0'");
  refused({"--control", "7001", "two.json", "soon"}, 2, "STEP: found 'soon'");
  refused({"--control", "7001", "two.json", "0"}, 2, "STEP: found '0'");
  refused({"--control", "7001", "nowhere.json"}, 1, "cannot read nowhere.json");
  write("broken.json", {{"stages", 3}});
  refused({"--control", "7001", "broken.json"}, 2, "broken.json");
  refused({"--control", "1", "two.json"}, 1, "no run can be asked at 127.0.0.1:1: Connection refused");
  EXPECT_EQ(run(program("penstock", {"replan", "--help"}), {}).exit_code, 0);
}

TEST_F(Replan, ARunGoesOnAfterRefusalsAndItsEndIsAnAnswer) {
  process job(into_log(long_run_), with_secret());
  const auto port = port_of(job);
  const auto asked = [&](const std::string& file, const std::string& step) {
    return program("penstock", {"replan", "--control", port, file, step});
  };
  expect_refusal(asked("sync.json", "99999999"), with_secret(), 1, "refused: sync.json: the plan's schedule is 1f1b");
  expect_refusal(asked("two.json", "100000000"), with_secret(), 1, "refused: two.json: step 100000000: the run ends");
  expect_refusal(asked("two.json", "99999999"), with_secret("another secret altogether"), 1,
                 "the job's secret differs from that of the control port");
  expect_refusal(program("lenet", {"--steps", "2", "--control", port}), with_secret(), 1,
                 "--control: [control] rank 0 cannot listen on 127.0.0.1:" + port);
  process waiting(asked("two.json", "99999999"), with_secret());
  ASSERT_TRUE(
      job.wait_for_text(folder_ / "log", "asked to change to the plan of two.json after step 99999999", patience));
  expect_refusal(asked("two.json", "99999998"), with_secret(), 1, "refused: another request, of 127.0.0.1:");
  job.send(SIGINT);
  const auto told = waiting.finish(patience);
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.errors, HasSubstr("refused: two.json: the run ended before step 99999999"));
  EXPECT_EQ(job.finish(patience).exit_code, 130);
}

TEST_F(Replan, ASynchronousRunHasTheBitsOfTheRunWithoutTheChange) {
  write("there.json",
        {{"schedule", "gpipe"}, {"stages", json::array({stage("conv1", "pool1"), stage("conv2", "fc3")})}});
  const std::vector<std::string> base{"--schedule", "1f1b",    "--microbatches", "4", "--stages",     "2",
                                      "--cuts",     "flatten", "--steps",        "9", "--eval-every", "-1"};
  const auto with = [&](const std::vector<std::string>& more) {
    auto all = base;
    all.insert(all.end(), more.begin(), more.end());
    return run(tiny_lenet(all), with_secret());
  };
  const auto plain = with({});
  const auto changed = with({"--replan", "3:there.json", "--replan", "6:sync.json", "--metrics", "m.jsonl"});
  ASSERT_EQ(changed.exit_code, 0) << changed.errors;
  EXPECT_EQ(hash_of(changed), hash_of(plain));
  EXPECT_THAT(changed.output,
              AllOf(HasSubstr("change of plan  after step 3: conv1..pool1 x1 | conv2..fc3 x1, gpipe, 4 micro-batches"),
                    HasSubstr("change of plan  after step 6: conv1..fc3 x1, 1f1b")));
  const auto changes = json::parse(lines_of(read_text(folder_ / "m.jsonl")).back()).at("plan_changes");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].at("step"), 3);
  EXPECT_EQ(changes[0].at("plan").at("layers"), json::array({"conv1 .. pool1", "conv2 .. fc3"}));
  EXPECT_EQ(changes[1].at("plan").at("schedule"), "1f1b");
  EXPECT_GT(changes[0].at("seconds"), 0);
  EXPECT_EQ(changes[0].at("bytes_moved"), 0) << "one process";
}

TEST_F(Replan, TheOracleAndManyProcessesHaveTheBitsOfTheRun) {
  write("more.json", {{"stages", json::array({stage("conv1", "conv2"), stage("relu2", "fc3")})}});
  auto replicated = json::parse(read_text(folder_ / "more.json"));
  replicated["stages"][0]["replicas"] = 2;
  write("more.json", replicated);
  const std::vector<std::string> base{"--stages", "2",        "--steps",     "12",       "--eval-every",
                                      "-1",       "--replan", "4:more.json", "--replan", "9:two.json"};
  auto oracle = base;
  oracle.insert(oracle.end(), {"--executor", "oracle"});
  const auto actors = run(tiny_lenet(base), with_secret());
  ASSERT_EQ(actors.exit_code, 0) << actors.errors;
  EXPECT_EQ(hash_of(run(tiny_lenet(oracle), with_secret())), hash_of(actors));
  auto job = program("penstock", {"launch", "-np", "2", "--"});
  const auto rank = tiny_lenet(base);
  job.insert(job.end(), rank.begin(), rank.end());
  EXPECT_EQ(hash_of(run(job, {.folder = folder_.path()})), hash_of(actors));
}

TEST_F(Replan, AResumedRunTakesWhatIsBehindItAsDone) {
  const auto leg = [&](const std::string& steps, const std::vector<std::string>& more) {
    auto all = more;
    all.insert(all.begin(), {"--stages", "2", "--cuts", "conv2", "--steps", steps, "--eval-every", "-1", "--replan",
                             "3:two.json", "--checkpoint-every", "6"});
    return run(tiny_lenet(all), with_secret());
  };
  write("late.json", {{"stages", json::array({stage("conv1", "fc1"), stage("relu3", "fc3")})}});
  const auto straight = leg("12", {"--checkpoint", "straight", "--replan", "8:late.json"});
  ASSERT_EQ(straight.exit_code, 0) << straight.errors;
  ASSERT_EQ(leg("6", {"--checkpoint", "parted"}).exit_code, 0);
  const auto resumed = leg("12", {"--checkpoint", "parted", "--resume", "--replan", "8:late.json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(hash_of(resumed), hash_of(straight));
  EXPECT_THAT(resumed.output, HasSubstr("the plan of two.json took over after step 3, before the checkpoint"));
}

TEST_F(Replan, ARunningJobTakesTheNewPlanAndSaysWhen) {
  process job(into_log(long_run_), with_secret());
  const auto port = port_of(job);
  const auto first = run(program("penstock", {"replan", "--control", port, "two.json"}), with_secret());
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.output, AllOf(HasSubstr("the plan took over after step "),
                                  HasSubstr(": conv1..pool2 x1 | flatten..fc3 x1, pipedream")));
  EXPECT_TRUE(job.wait_for_text(folder_ / "log", ":two.json repeats it", patience));
  job.send(SIGINT);
  EXPECT_EQ(job.finish(patience).exit_code, 130);
  EXPECT_THAT(read_text(folder_ / "log"), HasSubstr("change of plan  after step "));
}

TEST_F(Replan, AJobOfSeveralProcessesListensWithTheSecretOfTheLauncher) {
  std::ofstream(folder_ / "secret") << "a secret of this test\n";
  std::filesystem::permissions(folder_ / "secret", std::filesystem::perms::owner_read);
  auto command = program("penstock", {"launch", "-np", "2", "--secret-file", "secret", "--"});
  command.insert(command.end(), long_run_.begin(), long_run_.end());
  command.insert(command.end(), {"--stages", "2"});
  process job(into_log(command), {.folder = folder_.path()});
  const auto port = port_of(job);
  expect_refusal(program("penstock", {"replan", "--control", port, "sync.json"}), with_secret(), 1,
                 "refused: sync.json: the plan's schedule is 1f1b");
  const auto taken = run(program("penstock", {"replan", "--control", port, "two.json"}), with_secret());
  EXPECT_EQ(taken.exit_code, 0) << taken.errors;
  job.send(SIGTERM);
  EXPECT_EQ(job.finish(patience).exit_code, 143);
}

} // namespace
} // namespace penstock::test
