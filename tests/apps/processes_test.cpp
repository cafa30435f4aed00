// The apps in several processes, started by `penstock launch`: the same bits as one process over every transport, and
// an end for all when one of them ends.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <numeric>

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json summary_of(const std::filesystem::path& metrics) {
  const auto lines = lines_of(read_text(metrics));
  return lines.empty() ? nlohmann::json{} : nlohmann::json::parse(lines.back());
}

std::vector<std::string> launched(int processes, std::vector<std::string> command) {
  auto all = program("penstock", {"launch", "-np", std::to_string(processes), "--"});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

struct layout {
  std::string schedule;
  std::string replicas;
  int processes = 2;
  std::string transport;
  std::string microbatches = "";
  std::string frozen_until = ""; ///< all of the first of two stages
};

class Processes : public ::testing::TestWithParam<layout> {
public:
  temporary_folder folder;
  std::vector<std::string> lenet(const std::string& metrics) const {
    auto all = tiny_lenet({"--schedule", GetParam().schedule, "--replicas", GetParam().replicas, "--epochs", "2",
                           "--batch", "8", "--momentum", "0.9", "--metrics", folder / metrics});
    if (!GetParam().microbatches.empty()) all.insert(all.end(), {"--microbatches", GetParam().microbatches});
    const auto& layer = GetParam().frozen_until;
    if (!layer.empty()) all.insert(all.end(), {"--cuts", layer, "--frozen-until", layer});
    return all;
  }
};

TEST_P(Processes, HaveTheBitsOfOneProcess) {
  const auto one = run_process(lenet("one.jsonl"), patience);
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  auto command = lenet("many.jsonl");
  command.insert(command.end(), {"--transport", GetParam().transport, "--trace", folder / "t.pftrace"});
  const auto many = run_process(launched(GetParam().processes, command), patience);
  ASSERT_EQ(many.exit_code, 0) << many.errors << many.output;
  EXPECT_EQ(many.errors, "");
  EXPECT_THAT(many.output, Not(HasSubstr("UCX  "))) << "the library's own complaints go to stdout";
  const auto a = summary_of(folder / "one.jsonl");
  const auto b = summary_of(folder / "many.jsonl");
  for (const auto* what : {"weights_sha256", "state_sha256", "steps", "updates", "drains", "evaluation"})
    EXPECT_EQ(a.at(what), b.at(what)) << what;
  const auto checked = run_process(program("penstock", {"trace", "check", folder / "t.pftrace"}), patience);
  EXPECT_EQ(checked.exit_code, 0) << checked.output << checked.errors;
  EXPECT_EQ(folder.names().size(), 3U) << "the ranks' own traces are gone";
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Processes,
    ::testing::Values(layout{"pipedream", "1,1", 2, "shm"}, layout{"pipedream", "1,1,1", 3, "tcp"},
                      layout{"pipedream", "3,1", 4, "shm"}, layout{"pipedream", "2,1,2", 3, "auto"},
                      layout{"1f1b", "2,1", 3, "tcp", "4"}, layout{"gpipe", "1,1,1", 2, "shm", "3"},
                      layout{"zb-h1", "1,1,1", 3, "shm", "4"}, layout{"zb-h2", "1,2", 2, "tcp", "3"},
                      layout{"data-parallel", "4", 4, "shm"}, layout{"data-parallel", "2", 2, "tcp"},
                      layout{"2bw", "2,1", 3, "shm", "4"}, layout{"pipedream-vertical-sync", "2,2", 4, "tcp"},
                      layout{"pipedream", "3,1", 2, "shm", "", "conv2"}, layout{"1f1b", "1,2", 3, "tcp", "4", "fc1"}),
    [](const auto& of) {
      auto name =
          of.param.schedule + of.param.replicas + "on" + std::to_string(of.param.processes) + of.param.transport;
      if (!of.param.frozen_until.empty()) name += "frozen";
      std::erase_if(name, [](char c) { return c == '-' || c == ','; });
      return name;
    });

struct stray_signal {
  int rank;
  int signal;
  int exit_code;
};

class SignalToOneRank : public ::testing::TestWithParam<stray_signal> {};

TEST_P(SignalToOneRank, EndsTheWholeJobInOrderWithTheSignalsCode) {
  const temporary_folder folder;
  std::vector<std::string> command{"sh", "-c", "echo $$ > pid$PENSTOCK_RANK; exec \"$0\" \"$@\""};
  const auto lenet = tiny_lenet(
      {"--stages", "2", "--epochs", "20000", "--eval-every", "-1", "--metrics", "m.jsonl", "--checkpoint", "c"});
  command.insert(command.end(), lenet.begin(), lenet.end());
  process job(launched(2, command), {.folder = folder.path()});
  ASSERT_TRUE(job.wait_for_text(folder / "m.jsonl", R"("step":20,)", patience));
  ::kill(std::stoi(read_text(folder / ("pid" + std::to_string(GetParam().rank)))), GetParam().signal);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("interrupted: "));
  EXPECT_EQ(summary_of(folder / "m.jsonl").at("end"), "interrupted");
  EXPECT_FALSE(std::filesystem::is_empty(folder / "c"));
}

INSTANTIATE_TEST_SUITE_P(Processes, SignalToOneRank,
                         ::testing::Values(stray_signal{0, SIGINT, 130}, stray_signal{1, SIGINT, 130},
                                           stray_signal{0, SIGTERM, 143}, stray_signal{1, SIGTERM, 143}),
                         [](const auto& each) {
                           return std::string(each.param.signal == SIGINT ? "Interrupt" : "Term") + "Rank" +
                                  std::to_string(each.param.rank);
                         });

// The other rank has not come yet, and nobody can tell it.
TEST(SignalToOneRankAlone, EndsTheJobWithItsCodeWhileTheOthersAreWaitedFor) {
  const temporary_folder folder;
  std::vector<std::string> command{"sh", "-c",
                                   "echo $$ > pid$PENSTOCK_RANK; test $PENSTOCK_RANK = 0 || exec sleep 600; "
                                   "exec \"$0\" \"$@\""};
  const auto lenet = tiny_lenet({"--stages", "2", "--join-timeout", "600"});
  command.insert(command.end(), lenet.begin(), lenet.end());
  process job(launched(2, command), {.folder = folder.path()});
  const auto is_lenet = [&] {
    const auto pid = read_text(folder / "pid0");
    if (pid.empty()) return false;
    const auto status = read_text("/proc/" + pid.substr(0, pid.find('\n')) + "/status");
    const auto at = status.find("SigCgt:\t");
    if (at == std::string::npos) return false;
    const auto caught = std::stoull(status.substr(at + 8, 16), nullptr, 16);
    return (caught >> (SIGTERM - 1) & 1) != 0 && status.find("Name:\tlenet") == 0;
  };
  ASSERT_TRUE(job.wait_until(is_lenet, patience));
  ::kill(std::stoi(read_text(folder / "pid0")), SIGTERM);
  EXPECT_EQ(job.finish(patience).exit_code, 143);
}

TEST(SignalToAJob, GivesItsEvaluationUp) {
  process job(
      launched(2, tiny_lenet({"--stages", "2", "--eval-only", "--synthetic-samples", "8000000", "--eval-batch", "1"})));
  ASSERT_TRUE(job.wait_for_output("evaluation only", patience));
  job.send(SIGINT);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, 130) << result.errors;
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("top-1")));
  EXPECT_EQ(result.error_lines().size(), 1) << result.errors;
}

// Each rank in a folder of its own, as on hosts that share none.
class ProcessesApart : public ::testing::Test {
public:
  temporary_folder folder;
  void SetUp() override {
    for (const auto* rank : {"0", "1"})
      std::filesystem::create_directory(folder / rank);
  }
  std::vector<std::string> command(const std::string& before, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"/bin/sh", "-c", "cd $0/$PENSTOCK_RANK; " + before + " exec \"$@\"", folder.path()};
    auto app = tiny_lenet({"--stages", "2", "--batch", "8", "--checkpoint", "c", "--metrics", "m.jsonl"});
    app.insert(app.end(), more.begin(), more.end());
    all.insert(all.end(), app.begin(), app.end());
    return all;
  }
};

TEST_F(ProcessesApart, ARestartGoesOnFromTheCheckpointThatRankZeroSees) {
  const std::string die_once = "if [ $PENSTOCK_RANK$PENSTOCK_RESTARTS = 10 ]; then"
                               " (until [ -e $0/0/c/latest ]; do sleep 0.02; done; kill -9 $$) & fi;";
  auto all = program("penstock", {"launch", "-np", "2", "--restart", "1", "--"});
  const auto one = command(die_once, {"--epochs", "40", "--eval-every", "-1", "--checkpoint-every", "10"});
  all.insert(all.end(), one.begin(), one.end());
  const auto result = run_process(all, patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("resumed after step"));
}

TEST_F(ProcessesApart, WhatLiesInTheCheckpointFolderOfAnotherRankIsNobodysConcern) {
  ASSERT_EQ(run_process(tiny_lenet({"--steps", "1", "--checkpoint", folder / "1/c"}), patience).exit_code, 0);
  const auto result = run_process(launched(2, command("", {"--steps", "2"})), patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST_F(ProcessesApart, AnotherRunsCheckpointIsRefusedByAllAndNoRestartTakesIt) {
  ASSERT_EQ(run_process(tiny_lenet({"--steps", "1", "--checkpoint", folder / "0/c"}), patience).exit_code, 0);
  const auto before = read_text(folder / "0/c/latest");
  auto all = program("penstock", {"launch", "-np", "2", "--restart", "3", "--"});
  const auto one = command("", {"--steps", "4"});
  all.insert(all.end(), one.begin(), one.end());
  const auto result = run_process(all, patience);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("holds another run's checkpoint"));
  EXPECT_THAT(result.errors, Not(HasSubstr("again")));
  EXPECT_EQ(read_text(folder / "0/c/latest"), before);
}

TEST(ProcessesOptions, RankZeroTellsHowAllPairsReachEachOther) {
  const auto command = tiny_lenet({"--replicas", "2,1", "--steps", "2", "--transport", "tcp"});
  const auto r = run_process(launched(3, command), patience,
                             {.variables = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}});
  EXPECT_EQ(r.exit_code, 0) << r.errors;
  EXPECT_THAT(r.output, HasSubstr("3 processes, started by penstock launch; not used: Slurm's rank 0 of 1\n"));
  EXPECT_THAT(r.output, HasSubstr(": ranks 0-2, process"));
  EXPECT_THAT(r.output, HasSubstr("  all pairs: tcp over lo\n"));
}

// A container's /dev/shm, in a mount namespace of the test's own.
class SmallSharedMemory : public ::testing::Test {
protected:
  void SetUp() override {
    if (run_process(within("1m", {"true"}), patience).exit_code != 0)
      GTEST_SKIP() << "no mount namespaces here: they need root";
  }
  static std::vector<std::string> within(const std::string& size, const std::vector<std::string>& command) {
    std::vector<std::string> all{"unshare", "-m", "sh", "-c",
                                 "mount -t tmpfs -o size=" + size + " tmpfs /dev/shm && exec \"$0\" \"$@\""};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  process_result run(const std::string& size, int ranks, const std::vector<std::string>& more) const {
    auto app =
        tiny_lenet({"--replicas", std::to_string(ranks - 1) + ",1", "--steps", "2", "--metrics", folder / "m.jsonl"});
    app.insert(app.end(), more.begin(), more.end());
    return run_process(within(size, launched(ranks, app)), patience);
  }
  temporary_folder folder;
};

TEST_F(SmallSharedMemory, IsLeftByAllRanksTogetherForTheNetworkAndSaidWhy) {
  const auto roomy = run("64m", 3, {});
  EXPECT_EQ(roomy.exit_code, 0) << roomy.errors;
  EXPECT_THAT(roomy.output, AllOf(HasSubstr("all pairs: shared memory"), Not(HasSubstr("for want of"))));
  const auto expected = summary_of(folder / "m.jsonl").at("weights_sha256");
  for (const auto* size : {"1m", "5m", "9m"}) { // room for none, one, two of three
    const auto small = run(size, 3, {});
    EXPECT_EQ(small.exit_code, 0) << size << small.errors;
    EXPECT_EQ(small.errors, "") << size;
    EXPECT_THAT(small.output,
                AllOf(HasSubstr("all pairs: tcp over lo"), HasSubstr("for want of shared memory: /dev/shm has"),
                      HasSubstr("this host's 3 ranks need 13 MB")))
        << size;
    EXPECT_EQ(summary_of(folder / "m.jsonl").at("weights_sha256"), expected) << size;
  }
}

TEST_F(SmallSharedMemory, IsRefusedBeforeTrainingWhereItWasAskedFor) {
  const auto result = run("9m", 3, {"--transport", "shm"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("no shared memory: /dev/shm has 9 MB"), HasSubstr("need 13 MB"),
                                   HasSubstr("--transport tcp needs none")));
  EXPECT_THAT(result.output, Not(HasSubstr("step")));
}

TEST(ProcessesOptions, OneProcessSaysWhichOtherLauncherItDoesNotHeed) {
  const auto r = run_process(tiny_lenet({"--steps", "1"}), patience,
                             {.variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}});
  EXPECT_EQ(r.exit_code, 0) << r.output;
  EXPECT_EQ(r.errors, "lenet: one process, started by torchrun; not used: PMI's rank 1 of 2\n");
}

TEST(ProcessesOptions, OnlyRankZeroNeedsTheWeightsFile) {
  const temporary_folder folder;
  ASSERT_EQ(run_process(tiny_lenet({"--steps", "1", "--save-weights", folder / "w"}), patience).exit_code, 0);
  std::filesystem::create_directory(folder / "0");
  std::filesystem::create_directory(folder / "1");
  std::filesystem::rename(folder / "w", folder / "0" / "w");
  std::vector<std::string> command{"sh", "-c", "cd $PENSTOCK_RANK; exec \"$0\" \"$@\""};
  const auto lenet = tiny_lenet({"--stages", "2", "--steps", "2", "--weights", "w"});
  command.insert(command.end(), lenet.begin(), lenet.end());
  const auto r = run_process(launched(2, command), patience, {.folder = folder.path()});
  EXPECT_EQ(r.exit_code, 0) << r.errors;
}

TEST(ProcessesOptions, TooManyProcessesAreRefusedInOneLine) {
  const auto r = run_process(launched(3, tiny_lenet({"--stages", "2"})), patience);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.errors, HasSubstr("the job has 3 processes, the plan 2 stage replicas"));
}

TEST(ProcessesOptions, TheOracleStaysInOneProcess) {
  const auto r = run_process(launched(2, tiny_lenet({"--stages", "2", "--executor", "oracle"})), patience);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.errors, HasSubstr("the oracle runs in one process; this job has 2"));
}

TEST(ProcessesOptions, AFailureOnAnotherRankIsToldOnceByRankZero) {
  const auto r = run_process(launched(2, tiny_lenet({"--stages", "2", "--lr", "1e30"})), patience);
  EXPECT_EQ(r.exit_code, 1);
  const auto lines = r.error_lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& l) { return l.find("not finite") != std::string::npos; }),
            1)
      << r.errors;
}

// Whoever comes to its end first need not be the cause.
TEST(ProcessesOptions, TheLauncherNamesTheRankThatFailedAndNotTheOneThatEndedFirst) {
  const temporary_folder folder;
  for (const std::string late : {"0", "1"}) {
    // Rank 0 alone reads the weights; what it says reaches rank 1, which may well be gone before it.
    std::vector<std::string> command{"sh", "-c",
                                     "\"$@\"; code=$?; [ $PENSTOCK_RANK != " + late +
                                         " ] || until [ -e other ]; do sleep 0.02; done; touch other; exit $code",
                                     "sh"};
    const auto app = tiny_lenet({"--stages", "2", "--weights", "/no/such/weights"});
    command.insert(command.end(), app.begin(), app.end());
    const auto r = run_process(launched(2, command), patience, {.folder = folder.path()});
    EXPECT_THAT(r.errors, HasSubstr("penstock launch: rank 0 ended with exit code " + std::to_string(r.exit_code)))
        << "rank " << late << " ended last";
    std::filesystem::remove(folder / "other");
  }
}

TEST(ProcessesOptions, ALostRankIsToldWithWhatItWasDoingThen) {
  const temporary_folder folder;
  std::vector<std::string> command{"sh", "-c", "echo $$ > pid$PENSTOCK_RANK; exec \"$0\" \"$@\""};
  // Steps of a second or so: those after the only checkpoint outlast its being written and told.
  const auto app = program("lenet", {"--width", "8", "--batch", "512", "--stages", "2", "--threads", "1", "--steps",
                                     "8", "--eval-every", "-1", "--checkpoint", "c", "--checkpoint-every", "5"});
  command.insert(command.end(), app.begin(), app.end());
  process job(launched(2, command), {.folder = folder.path()});
  ASSERT_TRUE(job.wait_for_output("checkpoint of step 5", patience));
  ::kill(std::stoi(read_text(folder / "pid1")), SIGKILL);
  const auto r = job.finish(patience);
  EXPECT_EQ(r.exit_code, 137) << r.errors;
  EXPECT_THAT(r.errors, ContainsRegex("ended without a word; it was (training|working on stage 1)"));
}

TEST(ProcessesOptions, APlanFoundInAJobIsRunByIt) {
  const temporary_folder folder;
  const auto r = run_process(launched(2, program("lenet", {"--synthetic-samples", "64", "--batch", "16", "--plan",
                                                           "auto", "--save-plan", folder / "p.json"})),
                             patience);
  ASSERT_EQ(r.exit_code, 0) << r.errors << r.output;
  EXPECT_THAT(r.output, HasSubstr("link between ranks 0 and 1"));
  EXPECT_THAT(read_text(folder / "p.json"), HasSubstr("cpu:0"));
}

TEST(ProcessesOptions, LinksBetweenRanksAreMeasuredForThePlanner) {
  const temporary_folder folder;
  const auto r =
      run_process(launched(3, program("penstock", {"cluster", "measure", "-o", folder / "c.toml"})), patience);
  ASSERT_EQ(r.exit_code, 0) << r.errors;
  const auto text = read_text(folder / "c.toml");
  EXPECT_THAT(text, HasSubstr("count = 3"));
  EXPECT_THAT(text, HasSubstr("group = 3"));
  EXPECT_THAT(text, Not(HasSubstr("by_reference = true")));
}

} // namespace
} // namespace penstock::test
