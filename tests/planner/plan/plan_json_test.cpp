// Plans as text: nothing is lost, little must be said, and every fault is named by its key.
#include "planner/plan/plan.hpp"
#include "tests/planner/plan/example_plan.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <stdexcept>

namespace penstock::planner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string fault_in(const std::string& text) {
  return refusal([&] { plan_from_json(text, "plan.json"); });
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

const char* const minimal = R"({"stages": [{"first_layer": "conv1", "last_layer": "pool2"},
                                           {"first_layer": "fc1", "last_layer": "loss"}]})";

TEST(PlanJson, LosesNothing) {
  const auto text = to_json(example_plan());
  const auto read = plan_from_json(text, "plan.json");
  EXPECT_EQ(to_json(read), text);
  ASSERT_TRUE(read.predicted && read.predicted->costs && read.runner_up);
  EXPECT_EQ(read.predicted->bubble, 1.0 / 3);
  EXPECT_EQ(read.predicted->stages[1].backward_seconds, 0.1 / 3);
  EXPECT_EQ(read.predicted->stages[0].send_seconds, 5e-324);
  EXPECT_EQ(read.predicted->stages[0].memory.total, 15);
  EXPECT_THAT(read.stages[0].devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_TRUE(read.stages[0].recompute);
  EXPECT_EQ(read.stages[0].in_flight, 2);
  EXPECT_EQ(read.optimizer_copies, 2);
  EXPECT_EQ(read.window, 2);
  EXPECT_EQ(read.runner_up->rejected, "12 % slower");
  EXPECT_EQ(read.considered.size(), 2U);
  EXPECT_EQ(read.inputs.at("cluster"), "three.toml");
}

plan placed_plan() {
  auto p = example_plan();
  p.processes = 3;
  p.stages[0].ranks = {2, 0};
  p.stages[1].ranks = {2};
  return p;
}

TEST(PlanJson, AnOlderPlanIsForTheSameModel) {
  auto old = example_plan();
  old.model_options = "bert vocabulary=0 classes=10 width=1";
  const auto read = plan_from_json(to_json(old), "plan.json");
  EXPECT_EQ(read.model_options, "bert classes=10 width=1");
  EXPECT_TRUE(read.predicted) << "it is still the prediction of that plan";
}

TEST(PlanJson, GivesBackWhatIsRun) {
  for (const auto& p : {example_plan(), placed_plan()}) {
    const execution_plan run = p;
    EXPECT_EQ(run, plan_from_json(to_json(p), "plan.json")) << to_json(p);
  }
  EXPECT_THAT(to_json(example_plan()), Not(HasSubstr("ranks"))) << "one process: as plans were written before";
}

TEST(PlanJson, NamesTheKeyOfARankThatCannotBe) {
  for (const auto& [what, by, fault] : std::vector<std::array<std::string, 3>>{
           {R"("ranks": [2, 0])", R"("ranks": [2, 3])",
            "plan.json: stages[0].ranks[1]: found 3, wanted a rank below the plan's 3 processes"},
           {R"("ranks": [2, 0])", R"("ranks": [2])",
            "plan.json: stages[0].ranks: found a list of 1, wanted 2, one rank for each replica"},
           {R"("ranks": [2, 0])", R"("ranks": [-1, 0])", "plan.json: stages[0].ranks[0]: found -1, wanted"},
           {R"("ranks": [2, 0],)", "", "plan.json: stages[0]: the key 'ranks' is missing, wanted on every stage"},
           {R"("ranks": [2],)", "", "plan.json: stages[1]: the key 'ranks' is missing, wanted on every stage"},
           {R"("processes": 3)", R"("processes": 0)", "plan.json: processes: found 0, wanted a whole number from 1"}})
    EXPECT_THAT(fault_in(replaced(to_json(placed_plan()), what, by)), StartsWith(fault)) << by;
}

plan frozen_plan() {
  auto p = example_plan();
  freeze_until(p, 2, p.layer_order);
  p.ahead = 5;
  return p;
}

TEST(PlanJson, KeepsWhatIsFrozenByItsName) {
  const auto text = to_json(frozen_plan());
  EXPECT_THAT(text, HasSubstr(R"("frozen_until": "fc1")"));
  EXPECT_THAT(text, HasSubstr(R"("ahead": 5)"));
  EXPECT_THAT(to_json(example_plan()), Not(HasSubstr("frozen")));
  EXPECT_THAT(to_json(example_plan()), Not(HasSubstr("ahead")));
  const auto read = plan_from_json(text, "plan.json");
  const execution_plan run = frozen_plan();
  EXPECT_EQ(run, read);
  EXPECT_EQ(read.frozen_until, 2);
  EXPECT_TRUE(read.predicted) << "it was made for this";
  EXPECT_FALSE(plan_from_json(replaced(text, R"("ahead": 5)", R"("ahead": 6)"), "plan.json").predicted);
  const auto other = plan_from_json(replaced(text, R"("frozen_until": "fc1")", R"("frozen_until": "pool2")"), "p");
  EXPECT_EQ(other.frozen_until, 1);
}

TEST(PlanJson, LeavesANameOpenUntilTheLayersAreKnown) {
  const auto read =
      plan_from_json(replaced(minimal, "{\"stages", R"({"frozen_until": "fc1", "ahead": 2, "stages)"), "p");
  EXPECT_EQ(read.frozen_until, 0);
  EXPECT_EQ(read.first_active, "fc1");
  EXPECT_EQ(read.ahead, 2);
  EXPECT_EQ(frozen_stages_of(read), 1);
}

TEST(PlanJson, RefusesWhatCannotBeFrozen) {
  const auto text = to_json(frozen_plan());
  EXPECT_EQ(fault_in(replaced(text, R"("frozen_until": "fc1")", R"("frozen_until": "fc")")),
            "plan.json: frozen_until: found \"fc\", wanted a layer of layer_order (did you mean 'fc1'?)");
  EXPECT_THAT(fault_in(replaced(text, R"("frozen_until": "fc1")", R"("frozen_until": "")")),
              HasSubstr("wanted the name of the first layer that is not frozen"));
  EXPECT_EQ(fault_in(replaced(minimal, "{\"stages", R"({"ahead": 2, "stages)")),
            "plan.json: ahead: found 2, wanted 0, or frozen_until beside it: only frozen stages run ahead");
  EXPECT_THAT(fault_in(replaced(text, R"("ahead": 5)", R"("ahead": -1)")), HasSubstr("ahead: found -1"));
}

TEST(PlanJson, KeepsTheCostsThatASimulationNeeds) {
  const auto read = plan_from_json(to_json(example_plan()), "plan.json");
  const auto& s = read.predicted.value().costs.value().stages.at(0);
  EXPECT_THAT(s.devices, ElementsAre(0, 1));
  EXPECT_THAT(s.forward_seconds, ElementsAre(0.01, 0.02));
  EXPECT_THAT(s.backward_seconds, ElementsAre(0.03));
  EXPECT_EQ(s.accumulate_seconds, 1e-5);
  EXPECT_EQ(s.update_seconds, 2e-5);
  EXPECT_THAT(s.output_bytes, ElementsAre(3e5));
  EXPECT_EQ(s.all_reduce_bytes, 4e5);
  EXPECT_FALSE(s.all_reduce_overlaps);
  EXPECT_EQ(s.activation_delay_s, 5e-6);
  EXPECT_EQ(s.gradient_delay_s, 6e-6);
  EXPECT_EQ(s.weight_bytes, 7);
  EXPECT_EQ(s.gradient_bytes, 8);
  EXPECT_EQ(s.optimizer_bytes, 9);
  EXPECT_EQ(s.state_bytes, 10);
  EXPECT_THAT(s.kept_bytes, ElementsAre(1e6, 1.5e6));
  EXPECT_THAT(s.workspace_bytes, ElementsAre(11));
  const auto& l = read.predicted->costs->links.at(0);
  EXPECT_EQ(l.group, 3);
  EXPECT_EQ(l.bytes_per_second, 1e9);
  EXPECT_EQ(l.latency_s, 1e-5);
  EXPECT_TRUE(l.shared && l.half_duplex && l.by_reference);
}

TEST(PlanJson, IsReadByPeople) {
  const auto text = to_json(example_plan());
  EXPECT_THAT(text, StartsWith("{\n  \"format\": \"penstock-plan\",\n  \"version\": 1,\n"));
  EXPECT_THAT(text, HasSubstr("      \"devices\": [\"cpu:0\", \"cpu:1\"],\n"));
  EXPECT_THAT(text, HasSubstr("\"memory_bytes\": {\n"));
}

TEST(PlanJson, NeedsOnlyStages) {
  const auto p = plan_from_json(minimal, "plan.json");
  ASSERT_EQ(p.stages.size(), 2U);
  EXPECT_EQ(p.schedule, "pipedream");
  EXPECT_EQ(p.microbatches, 0);
  EXPECT_EQ(p.stages[1].replicas, 1);
  EXPECT_EQ(p.stages[1].in_flight, 0);
  EXPECT_TRUE(p.stages[1].devices.empty());
  EXPECT_FALSE(p.predicted);
  EXPECT_EQ(refusal([&] { check_plan(p); }), "");
  EXPECT_EQ(to_json(plan_from_json(to_json(p), "plan.json")), to_json(p));
}

TEST(PlanJson, CountsReplicasByTheirDevices) {
  const auto p = plan_from_json(
      R"({"stages": [{"first_layer": "a", "last_layer": "b", "devices": ["cpu:0", "cpu:1"]}]})", "plan.json");
  EXPECT_EQ(p.stages[0].replicas, 2);
}

TEST(PlanJson, TakesWholeNumbersHoweverWritten) {
  const auto p = plan_from_json(replaced(minimal, R"("stages")", R"("batch": 1.28e2, "stages")"), "plan.json");
  EXPECT_EQ(p.batch, 128);
}

TEST(PlanJson, LeavesOutAPredictionOfAnotherPlan) {
  const auto text = to_json(example_plan());
  for (const auto& [what, by] : std::vector<std::pair<std::string, std::string>>{
           {R"("in_flight": 2)", R"("in_flight": 3)"},
           {R"("last_layer": "pool2")", R"("last_layer": "pool1")"},
           {R"("batch": 64)", R"("batch": 32)"},
           {R"("prediction_of": ")", R"("prediction_of": "0)"},
           {R"("cpu:2")", R"("cpu:3")"},
           {R"(["conv1", "pool2", "fc1", "loss"])", R"(["pool2", "conv1", "fc1", "loss"])"}}) {
    const auto edited = plan_from_json(replaced(text, what, by), "plan.json");
    EXPECT_FALSE(edited.predicted) << by;
  }
  EXPECT_TRUE(plan_from_json(replaced(text, "fastest of 40", "my own"), "plan.json").predicted);
}

TEST(PlanJson, NamesTheKeyOfAFault) {
  for (const auto& [what, by, fault] : std::vector<std::array<std::string, 3>>{
           {R"("replicas": 2)", R"("replicas": 0)",
            "plan.json: stages[0].replicas: found 0, wanted a whole number from 1 to 65536"},
           {R"("replicas": 2)", R"("replicas": 1.5)",
            "plan.json: stages[0].replicas: found 1.5, wanted a whole number"},
           {R"("replicas": 2)", R"("replicas": "2")", "plan.json: stages[0].replicas: found \"2\", wanted a whole"},
           {R"("replicas": 2)", R"("replicas": 1e300)", "plan.json: stages[0].replicas: found 1e+300, wanted"},
           {R"("replicas": 2)", R"("replicas": -99999999999999999999)", "plan.json: stages[0].replicas: found -1"},
           {R"("replicas": 2)", R"("replicas": 3)",
            "plan.json: stages[0].devices: found a list of 2, wanted 3, one device for each replica"},
           {R"("replicas": 2)", R"("replica": 2)",
            "plan.json: stages[0]: found the unknown key 'replica' (did you mean 'replicas'?)"},
           {R"("replicas": 2)", R"("replicas": null)", "plan.json: stages[0].replicas: found null, wanted"},
           {R"("replicas": 2)", R"("replicas": 2, "replicas": 2)", "plan.json: found the key 'replicas' twice"},
           {R"("in_flight": 2)", R"("in_flight": 0)",
            "plan.json: stages[0].in_flight: found 0, wanted a whole number from 1"},
           {R"("recompute": true)", R"("recompute": 1)",
            "plan.json: stages[0].recompute: found 1, wanted true or false"},
           {R"("cpu:2")", R"("cpu:1")", "plan.json: stages[1].devices[0]: found \"cpu:1\", wanted a device that no"},
           {R"(["cpu:2"])", R"([])", "plan.json: stages[1].devices: found a list of 0, wanted 1"},
           {R"("devices": ["cpu:2"],)", "",
            "plan.json: stages[1]: the key 'devices' is missing, wanted on every stage"},
           {R"("devices": ["cpu:0", "cpu:1"],)", "",
            "plan.json: stages[0]: the key 'devices' is missing, wanted on every"},
           {R"("first_layer": "conv1",)", "", "plan.json: stages[0]: the key 'first_layer' is missing"},
           {R"("first_layer": "conv1")", R"("first_layer": "")",
            "plan.json: stages[0].first_layer: found \"\", wanted a layer"},
           {R"("first_layer": "conv1")", R"("first_layer": "a\nb")",
            "plan.json: stages[0].first_layer: found \"a\\nb\", wanted one line"},
           {R"("schedule": "pipedream")", R"("schedule": "pipdream")",
            "plan.json: schedule: found \"pipdream\", wanted a schedule's name (did you mean 'pipedream'?)"},
           {R"("format": "penstock-plan")", R"("format": "penstock-profile")",
            "plan.json: found a profile, wanted a plan"},
           {R"("version": 1)", R"("version": 2)",
            "plan.json: version: found 2, wanted at most 1: the plan is from a later"},
           {R"("window": 2)", R"("window": -1)", "plan.json: window: found -1, wanted a whole number from 0"},
           {R"("microbatches": 1)", R"("microbatches": 2000000)", "plan.json: microbatches: found 2000000, wanted"},
           {R"("bubble": 0.3333333333333333)", R"("bubble": 1.5)",
            "plan.json: prediction.bubble: found 1.5, wanted a number from 0 to 1"},
           {R"("step_seconds": 0.1)", R"("step_seconds": -0.1)",
            "plan.json: prediction.step_seconds: found -0.1, wanted"},
           {R"("step_seconds": 0.1)", R"("step_seconds": NaN)", "plan.json: parse error at line"},
           {R"("step_seconds": 0.1)", R"("step_seconds": 1e999)", "plan.json: number overflow"},
           {R"("total": 15)", R"("totals": 15)",
            "plan.json: prediction.stages[0].memory_bytes: found the unknown key 'totals'"},
           {R"("devices": [0, 1])", R"("devices": [0])",
            "plan.json: prediction.costs.stages[0].devices: found a list of 1, wanted 2"},
       }) {
    const auto found = fault_in(replaced(to_json(example_plan()), what, by));
    EXPECT_THAT(found, StartsWith(fault)) << by;
    EXPECT_THAT(found, Not(HasSubstr("\n")));
  }
}

TEST(PlanJson, RefusesWhatIsNoPlan) {
  EXPECT_EQ(fault_in(""), "plan.json: found an empty text, wanted JSON");
  EXPECT_EQ(fault_in("\r\n"), "plan.json: found an empty text, wanted JSON");
  EXPECT_THAT(fault_in("{"), StartsWith("plan.json: parse error"));
  EXPECT_THAT(fault_in("[]"), StartsWith("plan.json: found a list of 0, wanted an object"));
  EXPECT_THAT(fault_in("{}"), "plan.json: the key 'stages' is missing");
  EXPECT_THAT(fault_in(R"({"stages": []})"), "plan.json: stages: found a list of 0, wanted at least one stage");
  EXPECT_THAT(fault_in(R"({"stages": {}})"), "plan.json: stages: found an object, wanted a list");
  EXPECT_THAT(fault_in(std::string("\x7f\x45\x4c\x46\x00\xff\xfe", 7)),
              StartsWith("plan.json: found a program, wanted a plan"));
  EXPECT_THAT(fault_in(to_json(example_plan()) + "}"), StartsWith("plan.json: parse error"));
  EXPECT_THAT(fault_in(std::string(200'000, '[')), HasSubstr("nested deeper than 32 levels"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += R"({"a":)";
  EXPECT_THAT(fault_in(deep), HasSubstr("nested deeper than 32 levels"));
}

TEST(PlanJson, KeepsFaultsOnOneShortLineOfCleanText) {
  const auto name = std::string(100'000, 'x') + "\\u0007";
  for (const auto& text : {R"({")" + name + R"(": 1})", R"({"format": ")" + name + R"("})",
                           R"({"stages": [{"first_layer": "a", "last_layer": "b", ")" + name + R"(": 1}]})"}) {
    const auto found = fault_in(text);
    EXPECT_LT(found.size(), 300U);
    EXPECT_NE(found, "");
    EXPECT_THAT(found, Not(HasSubstr("\a")));
  }
}

// Whatever is done to a plan's bytes, it is read or refused, and what is read can be written and read again.
TEST(PlanJson, SurvivesRandomMutations) {
  const auto good = to_json(example_plan());
  std::mt19937 random(20);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string pieces[] = {"null", "-1", "1e400", "[]", "{}", "\"\"", "\"a\":", ",", "}", "]", "\\", "\"", "\xff"};
  int accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    auto text = good;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const auto at = below(text.size());
      switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(40));
        break;
      case 2:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(60)));
        break;
      default:
        text[at] = static_cast<char>('0' + below(10));
        break;
      }
    }
    try {
      const auto p = plan_from_json(text, "plan.json");
      EXPECT_EQ(to_json(plan_from_json(to_json(p), "plan.json")), to_json(p));
      try {
        check_plan(p);
        ++accepted;
      } catch (const std::invalid_argument&) {
      }
    } catch (const std::invalid_argument& fault) {
      EXPECT_THAT(fault.what(), Not(HasSubstr("\n")));
    }
  }
  EXPECT_GT(accepted, 100); // else the mutations are too rough to test anything
}

} // namespace
} // namespace penstock::planner::testing
