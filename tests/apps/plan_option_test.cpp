// `--plan FILE`, `--plan auto` and `--recompute` as a person uses them, and what is refused of them.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

json stage(const std::string& first, const std::string& last) {
  return {{"first_layer", first}, {"last_layer", last}};
}

// LeNet in two stages, made by hand.
json two_stages() {
  return {{"format", "penstock-plan"},
          {"version", 1},
          {"stages", json::array({stage("conv1", "pool1"), stage("conv2", "fc3")})}};
}

class PlanOption : public testing::Test {
protected:
  std::string write(const json& plan, const std::string& name = "plan.json") const {
    const auto file = folder_.path() / name;
    std::ofstream(file) << plan.dump(2);
    return file.string();
  }
  // Threads are the plan's business.
  process_result run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--synthetic-samples", "64"});
    return run_process(program("lenet", std::move(arguments)), patience, {.folder = folder_.path()});
  }
  static std::string hash_of(const process_result& result) {
    const auto at = result.output.find("weights_sha256");
    return at == std::string::npos ? result.errors : result.output.substr(at, 80);
  }
  void expect_refusal(const std::vector<std::string>& arguments, const std::vector<std::string>& says,
                      int exit_code = 2) const {
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    for (const auto& words : says)
      EXPECT_THAT(result.errors, HasSubstr(words));
  }
  temporary_folder folder_;
};

TEST_F(PlanOption, RunsAPlanMadeByHandAsTheOptionsWould) {
  const auto by_plan = run({"--plan", write(two_stages()), "--steps", "6", "--batch", "8"});
  const auto by_options = run({"--stages", "2", "--cuts", "conv2", "--steps", "6", "--batch", "8"});
  EXPECT_EQ(by_plan.exit_code, 0) << by_plan.errors;
  EXPECT_EQ(hash_of(by_plan), hash_of(by_options));
}

TEST_F(PlanOption, TakesScheduleCreditsAndRecomputationFromThePlan) {
  auto plan = two_stages();
  plan["schedule"] = "1f1b";
  plan["microbatches"] = 4;
  plan["stages"][0]["in_flight"] = 3;
  plan["stages"][1]["in_flight"] = 1;
  plan["stages"][0]["recompute"] = true;
  const auto file = write(plan);
  const auto by_plan = run({"--plan", file, "--steps", "4", "--batch", "8"});
  EXPECT_EQ(by_plan.exit_code, 0) << by_plan.errors;
  const auto by_options = run({"--stages", "2", "--cuts", "conv2", "--schedule", "1f1b", "--microbatches", "4",
                               "--in-flight", "3,1", "--steps", "4", "--batch", "8"});
  EXPECT_EQ(hash_of(by_plan), hash_of(by_options)) << "recomputation changes no bit";
  const auto oracle = run({"--plan", file, "--steps", "4", "--batch", "8", "--executor", "oracle"});
  EXPECT_EQ(hash_of(by_plan), hash_of(oracle));
}

TEST_F(PlanOption, SavedIsWhatTheFlagsSayAndGivesItBack) {
  const std::vector<std::vector<std::string>> flags{
      {},
      {"--stages", "3"},
      {"--stages", "2", "--cuts", "conv2", "--recompute", "0"},
      {"--replicas", "2,1", "--in-flight", "full"},
      {"--replicas", "2,1", "--update-lag", "1,0"},
      {"--replicas", "1,2,1", "--in-flight", "double", "--window", "3"},
      {"--stages", "2", "--in-flight", "5,2", "--threads", "1"},
      {"--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--recompute", "all"},
      {"--schedule", "gpipe", "--replicas", "2,2", "--microbatches", "3"},
      {"--schedule", "2bw", "--stages", "3"},
      {"--schedule", "data-parallel", "--replicas", "3"},
      {"--schedule", "pipedream-vertical-sync", "--replicas", "2,2"},
      {"--schedule", "model-parallel", "--stages", "2"}};
  for (auto words : flags) {
    const std::vector<std::string> rest{"--batch", "16", "--dry-run", "--save-plan"};
    words.insert(words.end(), rest.begin(), rest.end());
    words.emplace_back("flags.json");
    const auto by_flags = run(words);
    ASSERT_EQ(by_flags.exit_code, 0) << by_flags.errors;
    const auto by_file = run({"--plan", "flags.json", "--batch", "16", "--dry-run", "--save-plan", "again.json"});
    ASSERT_EQ(by_file.exit_code, 0) << by_file.errors;
    const auto saved = read_text(folder_.path() / "flags.json");
    EXPECT_EQ(read_text(folder_.path() / "again.json"), saved);
    EXPECT_EQ(by_file.output, by_flags.output) << saved;
    for (const auto& s : json::parse(saved)["stages"])
      EXPECT_GE(s["in_flight"], 1) << "nothing is left open";
  }
}

TEST_F(PlanOption, SavedByARunRepeatsIt) {
  const std::vector<std::string> flags{"--replicas", "1,2,1", "--in-flight", "full", "--steps", "5", "--batch", "8"};
  auto saving = flags;
  saving.insert(saving.end(), {"--save-plan", "run.json"});
  const auto first = run(saving);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const auto again = run({"--plan", "run.json", "--steps", "5", "--batch", "8"});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(hash_of(again), hash_of(first));
}

TEST_F(PlanOption, FindsAPlanRunsItAndComparesItWithWhatHappened) {
  const auto result = run({"--plan", "auto", "--steps", "6", "--save-plan", "found.json"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("profiling lenet"), HasSubstr("plan: "), HasSubstr("predicted / measured")));
  const auto again = run({"--plan", "found.json", "--steps", "6"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(hash_of(again), hash_of(result));
  EXPECT_THAT(again.output, HasSubstr("predicted / measured"));
}

TEST_F(PlanOption, KeepsWhatIsGivenBesideAuto) {
  const auto result = run({"--plan", "auto", "--stages", "3", "--schedule", "gpipe", "--microbatches", "2",
                           "--keep-together", "conv2..fc1", "--save-plan", "found.json", "--dry-run", "--batch", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const auto saved =
      run({"--plan", "auto", "--stages", "3", "--schedule", "gpipe", "--microbatches", "2", "--keep-together",
           "conv2..fc1", "--save-plan", "found.json", "--steps", "2", "--batch", "8"});
  ASSERT_EQ(saved.exit_code, 0) << saved.errors;
  const auto plan = json::parse(read_text(folder_.path() / "found.json"));
  EXPECT_EQ(plan["stages"].size(), 3U);
  EXPECT_EQ(plan["schedule"], "gpipe");
  EXPECT_EQ(plan["microbatches"], 2);
  for (const auto& s : plan["stages"])
    EXPECT_THAT(s["first_layer"].get<std::string>(), Not(testing::AnyOf("relu2", "pool2", "flatten", "fc1")));
}

TEST_F(PlanOption, TakesCutsAndCreditsAsPinsWithoutAStageCount) {
  const auto result = run({"--plan", "auto", "--cuts", "fc1", "--in-flight", "3,1", "--schedule", "pipedream",
                           "--dry-run", "--save-plan", "found.json", "--batch", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const auto plan = json::parse(read_text(folder_.path() / "found.json")); // a dry run saves what it was asked to save
  ASSERT_EQ(plan["stages"].size(), 2U);
  EXPECT_EQ(plan["stages"][1]["first_layer"], "fc1");
  EXPECT_EQ(plan["stages"][0]["in_flight"], 3);
}

TEST_F(PlanOption, SaysWhatAPredictionWasNotMadeFor) {
  ASSERT_EQ(run({"--plan", "auto", "--save-plan", "found.json", "--dry-run", "--batch", "8"}).exit_code, 0);
  const auto result = run({"--plan", "found.json", "--batch", "16", "--optimizer", "adamw", "--steps", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("batches of 8 (here 16)"), HasSubstr("1 copies of the weights (here 2)"),
                                   HasSubstr("prediction does not hold")));
  EXPECT_THAT(result.output, Not(HasSubstr("predicted / measured")));
}

TEST_F(PlanOption, RefusesPlansThatDoNotFitTheModel) {
  auto plan = two_stages();
  plan["model"] = "vgg16";
  expect_refusal({"--plan", write(plan)}, {"vgg16", "lenet"});
  plan = two_stages();
  plan["stages"][1]["first_layer"] = "relu2";
  expect_refusal({"--plan", write(plan)}, {"conv2", "relu2"});
  plan["stages"][1]["first_layer"] = "relu1";
  expect_refusal({"--plan", write(plan)}, {"relu1"});
  plan["stages"][1]["first_layer"] = "conv22";
  expect_refusal({"--plan", write(plan)}, {"conv22", "conv2"});
  plan = two_stages();
  plan["stages"].erase(1);
  expect_refusal({"--plan", write(plan)}, {"pool1"});
  plan = two_stages();
  plan["schedule"] = "fbp-as";
  plan["simulation_only"] = true;
  expect_refusal({"--plan", write(plan)}, {"simulation"});
}

TEST_F(PlanOption, RefusesWhatThePlanDecides) {
  const auto file = write(two_stages());
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{{"--stages", "2"},
                                                                                      {"--replicas", "1,1"},
                                                                                      {"--cuts", "conv2"},
                                                                                      {"--schedule", "gpipe"},
                                                                                      {"--microbatches", "2"},
                                                                                      {"--in-flight", "tight"},
                                                                                      {"--window", "1"},
                                                                                      {"--recompute", "all"},
                                                                                      {"--workers", "2"},
                                                                                      {"--keep-together", "conv2"}})
    expect_refusal({"--plan", file, option, value}, {option});
  expect_refusal({"--workers", "2"}, {"--workers", "--plan auto"});
  expect_refusal({"--plan", "auto", "--recompute", "all"}, {"--recompute"});
  expect_refusal({"--plan", "auto", "--executor", "oracle"}, {"--plan auto", "oracle"});
  expect_refusal({"--plan", "missing.json"}, {"--plan: cannot read missing.json"}, 1);
  expect_refusal({"--plan", "auto", "--keep-together", "conv9"}, {"conv9", "conv"});
  expect_refusal({"--plan", "auto", "--stages", "40"}, {"40"});
  std::ofstream(folder_.path() / "bad.json") << "{";
  expect_refusal({"--plan", "bad.json"}, {"bad.json"});
  std::ofstream(folder_.path() / "empty.json") << "";
  expect_refusal({"--plan", "empty.json"}, {"empty.json"});
  expect_refusal({"--plan", folder_.path().string()}, {"cannot read", "directory"}, 1);
  expect_refusal({"--plan", file, "--cuts", "fc1"}, {"--cuts", "decides it"});
  expect_refusal({"--plan", file, "--in-flight", "1,1"}, {"--in-flight", "decides it"});
  expect_refusal({"--plan", "auto", "--save-plan", "no/such/folder.json"}, {"--save-plan"}, 1);
  auto many = two_stages();
  many["threads"] = 4096;
  expect_refusal({"--plan", write(many, "many.json")}, {"4096", "cores"});
}

TEST_F(PlanOption, RecomputesTheStagesNamed) {
  const auto kept = run({"--stages", "2", "--steps", "4"});
  for (const auto* stages : {"all", "0", "1", "0,1"})
    EXPECT_EQ(hash_of(run({"--stages", "2", "--steps", "4", "--recompute", stages})), hash_of(kept)) << stages;
  expect_refusal({"--stages", "2", "--recompute", "2"}, {"--recompute", "2"});
  expect_refusal({"--stages", "2", "--recompute", "some"}, {"--recompute", "some"});
}

class AutoPlan : public testing::TestWithParam<const char*> {};

TEST_P(AutoPlan, WorksForEveryApp) {
  const temporary_folder folder;
  const auto result =
      run_process(program(GetParam(), {"--plan", "auto", "--width", "0.125", "--image-size", "64", "--batch", "4",
                                       "--steps", "3", "--eval-every", "-1", "--synthetic-samples", "16"}),
                  patience, {.folder = folder.path()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("predicted / measured"));
}

INSTANTIATE_TEST_SUITE_P(Apps, AutoPlan, testing::Values("lenet", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50"),
                         [](const auto& app) { return std::string(app.param); });

} // namespace
} // namespace penstock::test
