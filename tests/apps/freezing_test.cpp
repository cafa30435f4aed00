// `--frozen-until` as a person uses it, and what is refused of it.
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

class FrozenUntil : public testing::Test {
protected:
  process_result run(std::vector<std::string> arguments, const std::string& model = "lenet") const {
    arguments.insert(arguments.begin(),
                     {"--synthetic-samples", "64", "--batch", "8", "--threads", "1", "--eval-every", "-1"});
    return run_process(program(model, std::move(arguments)), patience, {.folder = folder_.path()});
  }
  // Of a plan's file, whose threads are its own.
  process_result run_plan(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--synthetic-samples", "64", "--batch", "8", "--eval-every", "-1"});
    return run_process(program("lenet", std::move(arguments)), patience, {.folder = folder_.path()});
  }
  static std::string hashes_of(const process_result& result) {
    const auto at = result.output.find("weights_sha256");
    return at == std::string::npos ? result.errors : result.output.substr(at, 160);
  }
  json summary_in(const char* file) const {
    std::ifstream in(folder_.path() / file);
    json last;
    for (std::string line; std::getline(in, line);)
      last = json::parse(line);
    return last;
  }
  void expect_refusal(const std::vector<std::string>& arguments, const std::string& says,
                      const std::string& model = "lenet") const {
    const auto result = run(arguments, model);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, AllOf(HasSubstr("--frozen-until: "), HasSubstr(says)));
  }
  temporary_folder folder_;
};

TEST_F(FrozenUntil, ADryRunSaysHowManyParametersAre) {
  const auto result = run({"--stages", "2", "--frozen-until", "conv2", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("\nfrozen until conv2: 156 of 61,706 parameters\n"));
  EXPECT_THAT(run({"--stages", "2", "--dry-run"}).output, Not(HasSubstr("frozen")));
}

TEST_F(FrozenUntil, NormsOfFrozenLayersAskForNoSamples) {
  // BatchNorm cannot be trained on one value a channel.
  const std::vector<std::string> single{
      "--synthetic-samples", "4", "--batch",      "1", "--image-size", "32", "--width", "0.125", "--steps", "2",
      "--threads",           "1", "--eval-every", "-1"};
  auto frozen = single;
  frozen.insert(frozen.end(), {"--frozen-until", "fc", "--save-plan", "frozen.json"});
  auto planned = single;
  planned.erase(planned.end() - 4, planned.end() - 2); // a plan has its own threads
  planned.insert(planned.end(), {"--plan", "frozen.json"});
  const auto exit_code_of = [&](const std::vector<std::string>& arguments) {
    return run_process(program("resnet18", arguments), patience, {.folder = folder_.path()}).exit_code;
  };
  EXPECT_EQ(exit_code_of(single), 2);
  EXPECT_EQ(exit_code_of(frozen), 0);
  EXPECT_EQ(exit_code_of(planned), 0);
}

TEST_F(FrozenUntil, ActorsLeaveTheOraclesBitsAndTheSummarySaysWhatWasTrained) {
  for (const auto* cut : {"conv2", "fc1"}) { // the first stage is wholly frozen, or in part
    const std::vector<std::string> freeze{"--stages", "2", "--cuts", cut, "--frozen-until", "conv2", "--steps", "6"};
    auto with_actors = freeze, with_oracle = freeze;
    with_actors.insert(with_actors.end(), {"--metrics", "run.jsonl", "--save-plan", "plan.json"});
    with_oracle.insert(with_oracle.end(), {"--executor", "oracle"});
    const auto found = run(with_actors);
    EXPECT_EQ(found.exit_code, 0) << found.errors;
    EXPECT_EQ(hashes_of(found), hashes_of(run(with_oracle))) << cut;
    EXPECT_THAT(found.output, HasSubstr("\nfrozen until conv2: 156 of 61,706 parameters\n"));
    const auto summary = summary_in("run.jsonl");
    EXPECT_EQ(summary.at("parameters"), 61706);
    EXPECT_EQ(summary.at("frozen_parameters"), 156);
    EXPECT_EQ(summary.at("frozen_until"), "conv2");
    EXPECT_EQ(hashes_of(run_plan({"--plan", "plan.json", "--steps", "6"})), hashes_of(found)) << cut;
  }
}

TEST_F(FrozenUntil, AnUpdateLagForAllIsOfThoseThatHaveUpdates) {
  const auto result = run({"--replicas", "1,2", "--cuts", "conv2", "--frozen-until", "conv2", "--update-lag", "1",
                           "--steps", "4", "--metrics", "run.jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(summary_in("run.jsonl").at("update_lag"), json::parse("[0, 1]"));
}

TEST_F(FrozenUntil, AChangeOfPlanFreezesAndTheLogSaysWhatThatMeans) {
  ASSERT_EQ(run({"--stages", "2", "--frozen-until", "fc1", "--dry-run", "--save-plan", "frozen.json"}).exit_code, 0);
  ASSERT_EQ(run({"--stages", "2", "--dry-run", "--save-plan", "thawed.json"}).exit_code, 0);
  const std::vector<std::string> changes{"--stages",      "2",        "--steps",      "9", "--replan",
                                         "3:frozen.json", "--replan", "6:thawed.json"};
  auto with_oracle = changes;
  with_oracle.insert(with_oracle.end(), {"--executor", "oracle"});
  const auto found = run(changes);
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.output, AllOf(HasSubstr("frozen until fc1: 2,572 of 61,706 parameters; the optimizer's state of "
                                            "the 2,572 that are frozen now is dropped"),
                                  HasSubstr("nothing is frozen any more; the optimizer's state of the 2,572 that are "
                                            "trained again begins anew")));
  EXPECT_EQ(hashes_of(found), hashes_of(run(with_oracle)));
}

TEST_F(FrozenUntil, ACheckpointGoesOnUnderAnotherFreeze) {
  ASSERT_EQ(run({"--stages", "2", "--frozen-until", "fc1", "--steps", "4", "--checkpoint", "c"}).exit_code, 0);
  const auto thawed = run({"--stages", "2", "--steps", "8", "--checkpoint", "c", "--resume"});
  EXPECT_EQ(thawed.exit_code, 0) << thawed.errors;
  EXPECT_THAT(thawed.output, AllOf(HasSubstr("changed since the checkpoint: --frozen-until fc1 -> not given"),
                                   HasSubstr("nothing is frozen any more; ")));
  const auto again =
      run({"--stages", "2", "--frozen-until", "conv2", "--steps", "12", "--checkpoint", "c", "--resume"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_THAT(again.output, HasSubstr("frozen until conv2: 156 of 61,706 parameters; "));
}

TEST_F(FrozenUntil, APlanThatIsFoundKeepsIt) {
  const auto found = run_plan({"--plan", "auto", "--workers", "1", "--plan-cache", "off", "--frozen-until", "fc1",
                               "--steps", "4", "--save-plan", "plan.json"});
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.output, AllOf(HasSubstr("profiling lenet"), HasSubstr("frozen until fc1: 2,572 of 61,706")));
  std::ifstream file(folder_ / "plan.json");
  EXPECT_EQ(json::parse(file).at("frozen_until"), "fc1");
  EXPECT_EQ(hashes_of(run_plan({"--plan", "plan.json", "--steps", "4"})), hashes_of(found));
  const auto refused = run_plan({"--plan", "auto", "--frozen-until", "fc9"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, Not(HasSubstr("profiling"))) << "before anything is measured";
}

TEST_F(FrozenUntil, IsRefusedInOneLine) {
  expect_refusal({"--frozen-until", "conv9"}, "lenet has no layer 'conv9' (did you mean 'conv1'?)");
  expect_refusal({"--frozen-until", "conv1"}, "'conv1' is the first layer, nothing would be before it");
  expect_refusal({"--frozen-until", "bert.embeddings.LayerNorm", "--head", "pretraining", "--width", "0.01"},
                 "no layer can be frozen", "bert");
  expect_refusal({"--frozen-until", "conv2", "--plan", "plan.json"}, "the plan says what is frozen");
  const auto behind_all = run({"--frozen-until", "fc3"});
  EXPECT_EQ(behind_all.exit_code, 0) << behind_all.errors;
}

} // namespace
} // namespace penstock::test
