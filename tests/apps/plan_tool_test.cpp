// `penstock plan` and `penstock simulate`, from files to text, and what they refuse.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::write_file;

const char* const graph = "node1 -- Input0 -- forward_compute_time=5.0, backward_compute_time=0.0, "
                          "activation_size=100.0, parameter_size=0.0\n"
                          "node2 -- Conv2d -- forward_compute_time=10.0, backward_compute_time=20.0, "
                          "activation_size=4000000.0, parameter_size=4000.0\n"
                          "node3 -- ReLU -- forward_compute_time=2.0, backward_compute_time=1.0, "
                          "activation_size=1000000.0, parameter_size=0.0\n"
                          "node4 -- Linear -- forward_compute_time=11.0, backward_compute_time=22.0, "
                          "activation_size=4000.0, parameter_size=100000000.0\n"
                          "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

const char* const by_hand = R"({"stages": [{"first_layer": "node2", "last_layer": "node3"},
                                            {"first_layer": "node4", "last_layer": "node4"}]})";

class PlanTool : public testing::Test {
protected:
  void SetUp() override {
    write_file(folder_ / "graph.txt", graph);
    write_file(folder_ / "hand.json", by_hand);
    write_file(folder_ / "two.toml", "[[device]]\ntype = \"cpu\"\ncount = 2\n\n[[link]]\ngroup = 2\n"
                                     "bandwidth_bytes_per_s = 1e9\n");
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  process_result run(std::vector<std::string> arguments) const {
    return run_process(program("penstock", std::move(arguments)), patience, {.folder = folder_.path()});
  }
  /// One line, exit 2, and no file more than before.
  void expect_refused(std::vector<std::string> arguments, const std::string& words) const {
    const auto before = folder_.names().size();
    const auto result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << words << "\n" << result.errors << result.output;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(words));
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(folder_.names().size(), before) << words;
  }

  temporary_folder folder_;
};

TEST_F(PlanTool, PlansWhatFollowsAFrozenPrefixAndSimulatesIt) {
  const std::vector<std::string> asked{"plan", "graph.txt", "--cluster", "two.toml", "--schedule", "pipedream"};
  auto frozen = asked;
  frozen.insert(frozen.end(), {"--frozen-until", "node4", "--ahead", "2", "--explain", "-o", "plan.json"});
  const auto result = run(frozen);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("frozen before node4"));
  const auto plan = nlohmann::json::parse(read_text(folder_ / "plan.json"));
  EXPECT_EQ(plan.at("frozen_until"), "node4");
  EXPECT_EQ(plan.at("ahead"), 2) << "over this link gradients take longer than anything else";
  EXPECT_EQ(plan.at("stages").size(), 2U);
  EXPECT_EQ(run({"simulate", "plan.json"}).exit_code, 0);
  auto wrong = asked;
  wrong.insert(wrong.end(), {"--frozen-until", "node9"});
  expect_refused(wrong, "--frozen-until");
}

TEST_F(PlanTool, SaysWhatAFileOfAnotherKindIs) {
  expect_refused({"plan", "hand.json", "--cluster", "two.toml"}, "hand.json: found a plan, wanted a profile");
  expect_refused({"plan", "two.toml", "--cluster", "two.toml"}, "two.toml: found a cluster's TOML, wanted a profile");
  expect_refused({"plan", "graph.txt", "--cluster", "hand.json"}, "hand.json: found a plan, wanted a cluster's TOML");
  expect_refused({"simulate", "graph.txt"}, "graph.txt: found a graph.txt of PipeDream's, wanted a plan");
  expect_refused({"simulate", "two.toml"}, "two.toml: found a cluster's TOML, wanted a plan");
}

TEST_F(PlanTool, TakesAmountsWithUnits) {
  const auto cluster_of = [this](const std::string& bandwidth, const std::string& memory) {
    const auto planned = run({"plan", "graph.txt", "--workers", "2", "--bandwidth", bandwidth, "--memory", memory,
                              "--latency", "20us", "-o", "units.json"});
    EXPECT_EQ(planned.exit_code, 0) << planned.errors;
    return nlohmann::json::parse(read_text(folder_ / "units.json")).at("inputs").at("cluster").get<std::string>();
  };
  EXPECT_EQ(cluster_of("10Gb/s", "16GiB"), "2 devices, 1250000000 bytes/s, 2e-05 s, 17179869184 bytes each");
  EXPECT_EQ(cluster_of("1.25GB/s", "17179869184"), cluster_of("1.25e9", "16GiB"));
  expect_refused({"plan", "graph.txt", "--workers", "2", "--bandwidth", "10Gx"}, "--bandwidth: found '10Gx'");
  expect_refused({"plan", "graph.txt", "--workers", "2", "--bandwidth", "1e9", "--memory", "16Gb"},
                 "--memory: found '16Gb'");
  expect_refused({"plan", "graph.txt", "--workers", "2"}, "--bandwidth");
}

TEST_F(PlanTool, PlansFromAGraphAndSimulatesWhatItPlanned) {
  const auto planned = run({"plan", "graph.txt", "--cluster", "two.toml", "--schedule", "pipedream", "--stages", "2",
                            "--explain", "-o", "plan.json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_THAT(planned.output, AllOf(HasSubstr("node2..node3 x1 | node4 x1"), HasSubstr("pipedream"),
                                    HasSubstr("step 33.0 ms, 2.00x one device"), HasSubstr("considered:")));
  const auto plan = nlohmann::json::parse(read_text(folder_ / "plan.json"));
  EXPECT_EQ(plan["inputs"]["profile"], "graph.txt");
  EXPECT_EQ(plan["inputs"]["cluster"], "two.toml");
  EXPECT_NEAR(plan["prediction"]["step_seconds"], 0.033, 1e-6);

  const auto simulated = run({"simulate", "plan.json", "--trace", "run.pftrace"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.errors;
  EXPECT_THAT(simulated.output, AllOf(HasSubstr("step 33.0 ms (predicted 33.0 ms)"), HasSubstr("stage 1 |")));
  const auto summary = run({"trace", "summary", "run.pftrace"});
  EXPECT_EQ(summary.exit_code, 0) << summary.errors;
  const auto checked = run({"trace", "check", "run.pftrace"});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
}

// Narrow, measured, and then each layer given the same time, so that a machine's noise decides nothing.
TEST_F(PlanTool, KeepsTogetherWhatAMeasuredModelSays) {
  const auto profiled = run(
      {"profile",   "bert", "--width",   "0.1",  "--vocabulary", "50", "--length", "8", "--samples", "2",
       "--workers", "1",    "--seconds", "0.01", "--repeats",    "3",  "--warmup", "0", "-o",        "measured.json"});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.errors;
  EXPECT_THAT(profiled.output, StartsWith("bert vocabulary=50 classes=10 width=0.1 length=8: "));
  auto profile = nlohmann::json::parse(read_text(folder_ / "measured.json"));
  const auto groups = profile.at("kept_together").get<std::vector<std::vector<std::string>>>();
  EXPECT_EQ(groups.size(), 24U) << "two of each layer of BERT";
  for (auto& cost : profile.at("measurements").at(0).at("layers")) {
    cost["forward_seconds"] = 0.001;
    cost["backward_seconds"] = 0.002;
    cost["weight_seconds"] = cost["update_seconds"] = cost["accumulate_seconds"] = 0;
  }
  write_file(folder_ / "even.json", profile.dump());
  const auto first_of_stage_1 = [&](std::vector<std::string> more, const std::string& words) {
    std::vector<std::string> all{"plan", "even.json",  "--workers", "2",         "--bandwidth", "1e12",  "--stages",
                                 "2",    "--schedule", "pipedream", "--explain", "-o",          "p.json"};
    all.insert(all.end(), more.begin(), more.end());
    const auto planned = run(all);
    EXPECT_EQ(planned.exit_code, 0) << planned.errors;
    EXPECT_THAT(planned.output, HasSubstr(words));
    return nlohmann::json::parse(read_text(folder_ / "p.json")).at("stages").at(1).at("first_layer").get<std::string>();
  };
  const auto found = first_of_stage_1({}, "together, as the model has it");
  for (const auto& group : groups)
    EXPECT_THAT(std::vector<std::string>(group.begin() + 1, group.end()), Not(testing::Contains(found)));
  const auto norm = "bert.encoder.layer.5.output.LayerNorm";
  EXPECT_EQ(first_of_stage_1({"--cuts", norm}, "fastest of 1 simulated plans"), norm);
}

TEST_F(PlanTool, CutsAModelBetweenTheBranchesOfABlock) {
  const auto profiled =
      run({"profile", "inception_v3", "--image-size", "75", "--width", "0.01", "--samples", "2", "--workers", "1",
           "--seconds", "0.01", "--repeats", "3", "--warmup", "0", "-o", "profile.json"});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.errors;
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"plan", "profile.json", "--workers", "2",  "--bandwidth",
                                   "1e9",  "--schedule",   "pipedream", "-o", "p.json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto planned = run(words);
    EXPECT_EQ(planned.exit_code, 0) << planned.errors;
    return planned.output;
  };
  EXPECT_THAT(plan({"--stages", "2"}), HasSubstr("..fc x1"));
  // The two ends of the branches before the cut and the block's input go across it.
  EXPECT_THAT(plan({"--cuts", "Mixed_6b.branch7x7dbl_1.conv"}),
              HasSubstr("Mixed_6b.branch7x7_3.relu x1 | Mixed_6b.branch7x7dbl_1.conv..fc x1"));
  const auto ran =
      run_process(program("inception_v3", {"--plan", "p.json", "--image-size", "75", "--width", "0.01", "--batch", "2",
                                           "--steps", "2", "--eval-every", "-1", "--synthetic-samples", "4"}),
                  patience, {.folder = folder_.path()});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("done: 2 steps"));
}

TEST_F(PlanTool, PlansForAFlatClusterWithoutAFile) {
  const auto result = run({"plan", "graph.txt", "--workers", "4", "--bandwidth", "1e9", "--optimizer", "sgd"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("one device"));
  EXPECT_EQ(folder_.names().size(), 3U); // no -o: nothing written
}

TEST_F(PlanTool, SimulatesAPlanMadeByHand) {
  const auto result = run({"simulate", "hand.json", "--profile", "graph.txt", "--cluster", "two.toml", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["schedule"], "pipedream");
  EXPECT_NEAR(json["step_seconds"], 0.033, 0.004);
  EXPECT_EQ(json["stages"].size(), 2U);
  EXPECT_GT(json["stages"][1]["memory_bytes"]["total"], 3e8);
}

TEST_F(PlanTool, JitterRepeatsWithItsSeedAndStragglersSlowDown) {
  const std::vector<std::string> base{"simulate",  "hand.json", "--profile", "graph.txt",
                                      "--cluster", "two.toml",  "--json"};
  const auto step = [&](const std::vector<std::string>& more) {
    auto arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return nlohmann::json::parse(result.output)["step_seconds"].get<double>();
  };
  const auto calm = step({});
  EXPECT_EQ(step({"--jitter", "0.2", "--seed", "3"}), step({"--jitter", "0.2", "--seed", "3"}));
  EXPECT_NE(step({"--jitter", "0.2", "--seed", "3"}), step({"--jitter", "0.2", "--seed", "4"}));
  EXPECT_NEAR(step({"--straggler", "cpu:1=2"}), 2 * 0.033, 0.005);
  EXPECT_GT(step({"--straggler", "cpu:1=2"}), calm);
}

TEST_F(PlanTool, RefusesFilesThatMakeNoSense) {
  const std::vector<std::string> plan{"plan", "graph.txt", "--cluster", "two.toml", "-o", "plan.json"};
  const auto with = [&](std::vector<std::string> more) {
    auto arguments = plan;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  write_file(folder_ / "bad.json", R"({"format": "penstock-profile"})");
  write_file(folder_ / "empty.txt", "");
  write_file(folder_ / "bad.toml", "[[device]]\ntype = \"cpu\"\ncount = 2\n[[link]]\ngroup = 2\n"
                                   "bandwidth_bytes_per_s = 0\n");
  expect_refused({"plan", "bad.json", "--cluster", "two.toml", "-o", "plan.json"}, "bad.json");
  expect_refused({"plan", "empty.txt", "--cluster", "two.toml", "-o", "plan.json"}, "empty.txt");
  expect_refused({"plan", "graph.txt", "--cluster", "bad.toml", "-o", "plan.json"}, "bad.toml");
  expect_refused({"plan", "graph.txt", "-o", "plan.json"}, "--cluster");
  expect_refused({"plan", "graph.txt", "--workers", "4", "-o", "plan.json"}, "--bandwidth");
  expect_refused(with({"--workers", "4"}), "--cluster");
  expect_refused(with({"--optimizer", "adamx"}), "did you mean 'adam'");
  expect_refused(with({"--schedule", "gpip"}), "gpip");
  expect_refused(with({"--cuts", "node33"}), "node33");
  expect_refused(with({"--keep-together", "node33"}), "node33");
  expect_refused(with({"--stages", "9"}), "9");
  expect_refused({"plan"}, "penstock plan PROFILE");
}

TEST_F(PlanTool, RefusesPlansThatMakeNoSense) {
  write_file(folder_ / "gap.json", R"({"stages": [{"first_layer": "node2", "last_layer": "node2"},
                                                  {"first_layer": "node4", "last_layer": "node4"}]})");
  write_file(folder_ / "other.json",
             R"({"model": "vgg16", "stages": [{"first_layer": "node2", "last_layer": "node4"}]})");
  write_file(folder_ / "twice.json",
             R"({"stages": [{"first_layer": "node2", "last_layer": "node3", "devices": ["cpu:0"]},
                                                    {"first_layer": "node4", "last_layer": "node4", "devices": ["cpu:0"]}]})");
  const auto simulate = [](const std::string& plan) {
    return std::vector<std::string>{"simulate",  plan,       "--profile", "graph.txt",
                                    "--cluster", "two.toml", "--trace",   "run.pftrace"};
  };
  expect_refused(simulate("gap.json"), "gap.json: stage 1 begins at 'node4', wanted 'node3'");
  expect_refused(simulate("other.json"), "vgg16");
  expect_refused(simulate("twice.json"), "twice.json: stages[1].devices[0]");
  expect_refused({"simulate", "hand.json"}, "hand.json: holds no costs");
  expect_refused({"simulate", "hand.json", "--cluster", "two.toml"}, "--profile");
  auto arguments = simulate("hand.json");
  arguments.insert(arguments.end(), {"--straggler", "cpu:7=2"});
  expect_refused(arguments, "cpu:7");
  arguments.back() = "cpu:1=-1";
  expect_refused(arguments, "--straggler");
  arguments = simulate("hand.json");
  arguments.insert(arguments.end(), {"--minibatches", "1000000000"});
  expect_refused(
      arguments,
      "--minibatches: found 1000000000, wanted at most 1000000 of 2 stages with 1 micro-batches per minibatch");
}

TEST_F(PlanTool, FailsOnFilesThatCannotBeRead) {
  const auto result = run({"plan", "nowhere.json", "--cluster", "two.toml", "-o", "plan.json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("nowhere.json"));
  EXPECT_EQ(run({"plan", ".", "--cluster", "two.toml"}).exit_code, 1);
  EXPECT_EQ(run({"plan", "graph.txt", "--cluster", "two.toml", "-o", "nowhere/plan.json"}).exit_code, 1);
}

} // namespace
} // namespace penstock::test
