// `--plan auto` from start to start: tried, kept, found again, and what it leaves as it is.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanAuto : public testing::Test {
protected:
  std::vector<std::string> command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--synthetic-samples", "64", "--batch", "8", "--steps", "4"});
    return program("lenet", std::move(arguments));
  }
  process_result run(std::vector<std::string> arguments) const {
    return run_process(command(std::move(arguments)), patience,
                       {.folder = folder_.path(), .variables = {{"XDG_CACHE_HOME", (folder_ / "cache").string()}}});
  }
  static std::string after(const std::string& text, const std::string& word, const std::string& end) {
    const auto at = text.find(word);
    if (at == std::string::npos) return "";
    const auto from = at + word.size();
    return text.substr(from, text.find(end, from) - from);
  }
  static std::string hash_of(const process_result& result) { return after(result.output, "weights_sha256", "\n"); }

  temporary_folder folder_;
};

TEST_F(PlanAuto, TriesPlansKeepsTheFastestAndFindsItAgainAtTheNextStart) {
  const auto first = run({"--plan", "auto"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.output, AllOf(HasSubstr("profiling lenet"), HasSubstr("ms a step as run"), HasSubstr("\nplan: "),
                                  HasSubstr("pipedream"), HasSubstr("repeats this run")));
  const auto second = run({"--plan", "auto"});
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, AllOf(HasSubstr("the plan is from the cache, measured 2"),
                                   HasSubstr("--plan-cache refresh measures anew"), Not(HasSubstr("profiling"))));
  EXPECT_EQ(hash_of(second), hash_of(first));
  const auto kept = after(first.output, "\n--plan ", " repeats this run");
  ASSERT_TRUE(std::filesystem::exists(kept)) << first.output;
  const auto by_file = run({"--plan", kept});
  ASSERT_EQ(by_file.exit_code, 0) << by_file.errors;
  EXPECT_EQ(hash_of(by_file), hash_of(first));
  EXPECT_THAT(by_file.output, Not(HasSubstr("was made for")));
  const auto other = run({"--plan", "auto", "--momentum", "0"});
  EXPECT_THAT(other.output, HasSubstr("profiling lenet")) << "another optimizer is another question";
}

TEST_F(PlanAuto, MeasuresAnewWhereTheEntryIsDamagedOrSomebodyAsks) {
  const auto first = run({"--plan", "auto", "--workers", "1", "--plan-cache", "plans"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const auto kept = after(first.output, "\n--plan ", " repeats this run");
  std::ofstream(folder_ / kept) << "{";
  const auto damaged = run({"--plan", "auto", "--workers", "1", "--plan-cache", "plans"});
  EXPECT_EQ(damaged.exit_code, 0) << damaged.errors;
  EXPECT_THAT(damaged.output, AllOf(HasSubstr("plan cache: an entry is not used"), HasSubstr("profiling lenet")));
  EXPECT_THAT(run({"--plan", "auto", "--workers", "1", "--plan-cache", "plans"}).output, Not(HasSubstr("profiling")));
  EXPECT_THAT(run({"--plan", "auto", "--workers", "1", "--plan-cache", "refresh:plans"}).output,
              HasSubstr("profiling lenet"));
  const auto off = run({"--plan", "auto", "--workers", "1", "--plan-cache", "off"});
  EXPECT_THAT(off.output, AllOf(HasSubstr("profiling lenet"), HasSubstr("--save-plan FILE keeps it")));
}

TEST_F(PlanAuto, LeavesScheduleAndMicroBatchesAsTheyAre) {
  const auto planned = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--plan-cache", "off", "--save-plan", "found.json", "--dry-run"});
    const auto result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("--plan found.json repeats this run"));
    return json::parse(read_text(folder_ / "found.json"));
  };
  auto plan = planned({"--plan", "auto"});
  EXPECT_EQ(plan.at("schedule"), "pipedream");
  for (const auto& row : plan.value("considered", json::array()))
    EXPECT_EQ(row.at("schedule"), "pipedream");
  plan = planned({"--plan", "auto", "--schedule", "1f1b", "--microbatches", "4"});
  EXPECT_EQ(plan.at("schedule"), "1f1b");
  EXPECT_EQ(plan.at("microbatches"), 4);
}

TEST_F(PlanAuto, RefusesBeforeItMeasures) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& words) {
    const auto result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(words));
    EXPECT_THAT(result.output, Not(HasSubstr("profiling")));
  };
  refused({"--plan", "auto:all"}, "auto, auto:any or a file");
  refused({"--plan", "auto", "--clip-norm", "1"}, "--plan auto:any");
  refused({"--plan-cache", "off"}, "--plan-cache: wanted --plan auto");
  refused({"--plan", "auto", "--keep-together", "conv9"}, "conv9");
  refused({"--plan", "auto", "--cuts", "conv8"}, "conv8");
  refused({"--plan", "auto", "--plan-cache", "refresh:"}, "--plan-cache");
}

// Nobody waits for what a signal has made useless.
TEST_F(PlanAuto, EndsWith130WhateverASignalInterrupts) {
  for (const std::string at : {"measuring", "profiling", "trying"}) {
    process p(program("vgg11", {"--image-size", "32", "--width", "0.25", "--plan", "auto", "--plan-cache", "plans"}),
              {.folder = folder_.path()});
    ASSERT_TRUE(p.wait_for_output(at, patience)) << at;
    p.send(SIGINT);
    const auto result = p.finish(patience);
    EXPECT_EQ(result.exit_code, 130) << at << result.errors;
    EXPECT_THAT(result.output, Not(HasSubstr("weights_sha256"))) << at;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "plans")) << at;
  }
}

TEST_F(PlanAuto, TriesAndKeepsForAWholeJob) {
  const auto job = [&](std::vector<std::string> arguments) {
    auto all = program("penstock", {"launch", "-np", "2", "--"});
    const auto rest = command(std::move(arguments));
    all.insert(all.end(), rest.begin(), rest.end());
    return run_process(all, patience,
                       {.folder = folder_.path(), .variables = {{"XDG_CACHE_HOME", (folder_ / "cache").string()}}});
  };
  const auto first = job({"--plan", "auto"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.output, AllOf(HasSubstr("ms a step as run"), HasSubstr("repeats this run")));
  const auto second = job({"--plan", "auto"});
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, AllOf(HasSubstr("the plan is from the cache"), Not(HasSubstr("profiling"))));
  EXPECT_EQ(hash_of(second), hash_of(first));
  const auto by_file = job({"--plan", after(first.output, "\n--plan ", " repeats this run")});
  EXPECT_EQ(hash_of(by_file), hash_of(first)) << by_file.errors;
}

} // namespace
} // namespace penstock::test
