// Plans that take over during a run: how their options are read, how they are settled, and what is refused.
#include "apps/plugins/plugin_registry.hpp"
#include "apps/runner/plan_changes.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace penstock::apps {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

app_options parsed(std::vector<std::string> arguments) {
  std::string help;
  return *parse_options("lenet", arguments, help);
}

TEST(ReplanOptions, AreReadInTheOrderOfTheirSteps) {
  const auto all = parse_changes({"20:b.json", "3:/a:c/d.json"});
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].step, 3);
  EXPECT_EQ(all[0].file, "/a:c/d.json");
  EXPECT_EQ(text_of(all[1]), "after step 20: b.json");
}

TEST(ReplanOptions, OtherTextsAreRefusedInALine) {
  for (const auto* text : {"7", ":", "7:", ":plan.json", "0:p", "-1:p", "x:p", "1.5:p", "99999999999999999999:p"})
    EXPECT_THAT([&] { parse_changes({text}); }, ThrowsMessage<usage_error>(HasSubstr("--replan: found '"))) << text;
  EXPECT_THAT(
      [] {
        parse_changes({"4:a", "9:b", "4:c"});
      },
      ThrowsMessage<usage_error>(HasSubstr("two plans after step 4, 'a' and 'c'")));
}

TEST(ReplanOptions, ControlIsOnTheLoopbackUnlessAHostIsNamed) {
  EXPECT_EQ(parse_control("0", 0).port, 0);
  EXPECT_EQ(parse_control("7001", 0).master, "127.0.0.1");
  EXPECT_EQ(parse_control("host.example:7001", 0).master, "host.example");
  EXPECT_EQ(parse_control("[::1]:7001", 0).master, "::1");
  for (const auto* text : {"many", "-1", "65536", "a b:1", ":", ":1", "host:", "::1:80", "host:0"})
    EXPECT_THAT([&] { parse_control(text, 1); }, ThrowsMessage<usage_error>(HasSubstr("--control: found '"))) << text;
  EXPECT_THAT([] { parse_control("0", 1); }, ThrowsMessage<usage_error>(HasSubstr("--control")));
}

TEST(ReplanOptions, NothingIsTrainedWithEvalOnly) {
  for (const auto* option : {"--replan=4:a", "--control=0"})
    EXPECT_THAT([&] { parsed({"--eval-only", option}); }, ThrowsMessage<usage_error>(HasSubstr("--eval-only")));
}

json stage(const std::string& first, const std::string& last, int replicas = 1) {
  return {{"first_layer", first}, {"last_layer", last}, {"replicas", replicas}};
}

json two_stages() {
  return {{"stages", json::array({stage("conv1", "pool2"), stage("flatten", "fc3")})}};
}

class PlanChanges : public testing::Test {
protected:
  std::string write(const json& plan, const std::string& name = "plan.json") const {
    const auto file = folder_.path() / name;
    std::ofstream(file) << plan.dump(2);
    return file.string();
  }
  // LeNet of 10 steps and these arguments.
  prepared_run prepared(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--synthetic-samples", "64", "--batch", "8", "--steps", "10",
                                         "--threads"
                                         "=2"});
    return prepare(parsed(arguments), plugin_registry(), nullptr, [](const std::string&) { return true; });
  }
  void expect_refused(const json& plan, const std::string& words, std::vector<std::string> arguments = {},
                      const std::string& step = "4") const {
    const auto file = write(plan);
    arguments.push_back("--replan=" + step + ":" + file);
    EXPECT_THAT([&] { prepared(arguments); },
                ThrowsMessage<usage_error>(AllOf(HasSubstr("--replan: "), HasSubstr(file), HasSubstr(words))));
  }
  testing_support::temporary_folder folder_;
};

TEST_F(PlanChanges, AreSettledWithTheThreadsAndMicrobatchesOfTheRun) {
  const auto run = prepared(
      {"--schedule", "1f1b", "--microbatches", "4", "--replan",
       "3:" + write({{"schedule", "1f1b"}, {"stages", two_stages()["stages"]}}, "a.json"), "--replan",
       "6:" + write({{"schedule", "gpipe"}, {"microbatches", 2}, {"stages", json::array({stage("conv1", "fc3")})}},
                    "b.json")});
  ASSERT_THAT(run.inputs.changes, SizeIs(2));
  const auto& first = run.inputs.changes[0];
  EXPECT_EQ(first.step, 3);
  EXPECT_EQ(first.plan->stages.size(), 2U);
  EXPECT_EQ(first.plan->microbatches, 4);
  EXPECT_EQ(first.plan->threads, 2);
  EXPECT_THAT(first.plan->stages[0].in_flight, 2) << "nothing is left open";
  EXPECT_EQ(run.inputs.changes[1].plan->microbatches, 2) << "the file says so";
  EXPECT_EQ(run.inputs.first_replicas, 1);
  EXPECT_EQ(run.plan->stages.size(), 1U);
}

TEST_F(PlanChanges, WithoutAnyNothingIsSettled) {
  const auto run = prepared({});
  EXPECT_THAT(run.inputs.changes, IsEmpty());
  EXPECT_EQ(run.settler, nullptr);
  EXPECT_EQ(run.inputs.first_replicas, 0);
}

TEST_F(PlanChanges, StepsBeyondTheEndAreRefused) {
  expect_refused(two_stages(), "the run ends after step 10", {}, "10");
  expect_refused(two_stages(), "the run ends after step 10", {}, "11");
  EXPECT_THAT(prepared({"--replan", "9:" + write(two_stages())}).inputs.changes, SizeIs(1));
}

TEST_F(PlanChanges, AnotherModelIsRefused) {
  auto plan = two_stages();
  plan["model"] = "vgg16";
  expect_refused(plan, "the plan is for vgg16, wanted one for lenet");
  plan["model"] = "lenet";
  plan["model_options"] = "lenet image_size=32 channels=1 classes=10 width=1";
  expect_refused(plan, "wanted one for lenet image_size=28");
  plan = two_stages();
  plan["stages"][1]["last_layer"] = "fc2";
  expect_refused(plan, "fc");
  plan["stages"][1]["last_layer"] = "fc9";
  expect_refused(plan, "fc9");
}

TEST_F(PlanChanges, AnotherFamilyOfSchedulesIsRefused) {
  auto plan = two_stages();
  plan["schedule"] = "1f1b";
  expect_refused(plan, "the plan's schedule is 1f1b, wanted one of the family of pipedream (pipedream)");
  plan["schedule"] = "2bw";
  expect_refused(plan, "wanted one of the family of 1f1b (synchronous)", {"--schedule", "1f1b"});
  plan["schedule"] = "pipedream-vertical-sync";
  EXPECT_THAT(prepared({"--replan", "4:" + write(plan)}).inputs.changes, SizeIs(1));
  EXPECT_EQ(family_of("gpipe"), "synchronous");
  EXPECT_EQ(family_of("data-parallel"), "synchronous");
  EXPECT_EQ(family_of("model-parallel"), "synchronous");
  EXPECT_EQ(family_of("pipedream-naive"), "pipedream");
  EXPECT_EQ(family_of("2bw"), "2bw");
}

TEST_F(PlanChanges, EachIsComparedWithTheOneBeforeIt) {
  auto replicated = two_stages();
  replicated["stages"][0]["replicas"] = 3;
  const auto run =
      prepared({"--replan", "2:" + write(replicated, "a.json"), "--replan", "5:" + write(two_stages(), "b.json")});
  EXPECT_EQ(run.inputs.changes[0].plan->stages[0].replicas, 3) << "a file may change R_s";
  EXPECT_EQ(run.inputs.changes[1].plan->stages[0].replicas, 1);
}

TEST_F(PlanChanges, MoreProcessesThanThereAreAreRefused) {
  auto plan = two_stages();
  plan["processes"] = 2;
  plan["stages"][0]["ranks"] = {0};
  plan["stages"][1]["ranks"] = {1};
  expect_refused(plan, "the plan is for 2 processes, this job has 1");
}

TEST_F(PlanChanges, WhatTheScheduleOrTheRunRefusesIsRefused) {
  auto plan = two_stages();
  plan["stages"][0]["in_flight"] = 1;
  plan["stages"][1]["in_flight"] = 3;
  expect_refused(plan, "in-flight");
  plan = two_stages();
  plan["schedule"] = "gpipe";
  plan["microbatches"] = 16;
  expect_refused(plan, "batch 8 cannot be split into 16 micro-batches", {"--schedule", "gpipe"});
  plan = two_stages();
  plan["microbatches"] = 2;
  expect_refused(plan, "2bw");
}

TEST_F(PlanChanges, AFileThatIsNoPlanIsNamed) {
  const auto file = (folder_ / "plan.json").string();
  std::ofstream(file) << "{";
  EXPECT_THAT(
      [&] {
        prepared({"--replan", "4:" + file});
      },
      ThrowsMessage<usage_error>(AllOf(HasSubstr("--replan: "), HasSubstr(file))));
  EXPECT_THAT(
      [&] {
        prepared({"--replan", "4:nowhere.json"});
      },
      ThrowsMessage<error>(HasSubstr("--replan: cannot read nowhere.json")));
}

class PlanRoom : public testing::Test {
protected:
  PlanRoom() {
    model_builder b("dense", {10});
    auto x = b.add("a", layers::linear({.in_features = 10, .out_features = 100}), {b.input()});
    net_ = std::make_shared<const model>(
        b.build(b.add("b", layers::linear({.in_features = 100, .out_features = 10}), {x})));
  }
  // Stage 0 on the first ranks, stage 1 on the last.
  planner::plan_ptr plan(int stages, int processes) const {
    actors::pipeline_request request;
    request.schedule = "1f1b";
    request.microbatches = 2;
    request.replicas.assign(static_cast<std::size_t>(stages), 1);
    if (stages == 2) request.cuts = {1};
    return actors::settle_request(request, *net_, {processes, 0});
  }
  static constexpr double first_weights = 4.0 * (10 * 100 + 100);
  static constexpr double last_weights = 4.0 * (100 * 10 + 10);
  std::shared_ptr<const model> net_;
};

TEST_F(PlanRoom, CountsVersionsGradientsOptimizerStateAndInputsInFlight) {
  const auto bytes = least_bytes(*plan(2, 1), *net_, 8, 1);
  ASSERT_THAT(bytes, SizeIs(2));
  EXPECT_EQ(bytes[0].at_rest, 2 * first_weights);
  EXPECT_EQ(bytes[0].running, 3 * first_weights + 2 * 4 * 10 * 4.0) << "two micro-batches of 4 in flight";
  EXPECT_EQ(bytes[1].running, 3 * last_weights + 4 * 100 * 4.0);
}

TEST_F(PlanRoom, BothPlansTogetherMustFitAndEachHostCountsForItself) {
  const auto one = plan(1, 1);
  const auto two = plan(2, 1);
  const auto bytes = least_bytes(*two, *net_, 8, 1);
  const double running = bytes[0].running + bytes[1].running;
  const double both = 4 * (first_weights + last_weights);
  const auto check = [&](double room, const std::vector<planner::stage_prediction>& predicted = {}) {
    require_room(*one, *two, predicted, *net_, 8, 1, {{"here", "h", room}});
  };
  EXPECT_NO_THROW(check(std::max(running, both)));
  EXPECT_THAT([&] { check(running - 1); },
              ThrowsMessage<usage_error>(AllOf(HasSubstr("of memory on here"), HasSubstr("which has"))));
  EXPECT_THAT([&] { check(both - 1); }, ThrowsMessage<usage_error>(HasSubstr("beside the plan before it")));
  std::vector<planner::stage_prediction> predicted(2);
  predicted[1].memory.total = 1e6;
  EXPECT_THAT([&] { check(2 * both, predicted); }, ThrowsMessage<usage_error>(HasSubstr("1.0")));
  const auto apart = plan(2, 2);
  EXPECT_NO_THROW(require_room(*apart, *apart, {}, *net_, 8, 1,
                               {{"a", "a", 2 * bytes[0].running}, {"b", "b", 2 * bytes[1].running}}));
  EXPECT_THAT(
      [&] {
        require_room(*apart, *apart, {}, *net_, 8, 1, {{"a", "a", 1e9}, {"b", "b", 1}});
      },
      ThrowsMessage<usage_error>(HasSubstr("memory on b")));
  EXPECT_THAT(
      [&] {
        require_room(*apart, *apart, {}, *net_, 8, 1, {{"a", "x", running - 1}, {"b", "x", running - 1}});
      },
      ThrowsMessage<usage_error>(HasSubstr("memory on a")))
      << "two ranks share a host";
}

} // namespace
} // namespace penstock::apps
