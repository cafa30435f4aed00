// Two traces side by side.
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/command.hpp"
#include "tools/trace/diff.hpp"
#include "tools/trace/simulated_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace penstock::actors {
namespace {

using ::testing::HasSubstr;

/// Stages of 1 ms forward, 2 ms backward and 0.1 ms updates times their factor.
trace_file trace_of(const planner::schedule_request& request, const std::vector<double>& factors,
                    const std::string& file = "") {
  planner::machine m;
  int device = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    planner::machine_stage stage{.forward_seconds = {1e-3 * factors[i]},
                                 .backward_seconds = {2e-3 * factors[i]},
                                 .update_seconds = 1e-4 * factors[i]};
    for (int r = 0; r < request.replicas[i]; ++r)
      stage.devices.push_back(device++);
    m.stages.push_back(stage);
  }
  const auto schedule = planner::resolve_schedule(request);
  const auto run = planner::run_machine(schedule, m);
  const auto bytes = encode_simulated_trace(schedule, run, {.model = "toy"});
  if (!file.empty()) std::ofstream(file, std::ios::binary) << bytes;
  std::istringstream in(bytes);
  return read_trace(in, bytes.size(), "simulated");
}

planner::schedule_request pipedream(std::int64_t minibatches) {
  return {.name = "pipedream", .replicas = {1, 1}, .minibatches = minibatches};
}

TEST(TraceDiff, ComparesStageByStageWhateverTheLengths) {
  const auto d = compare_traces(trace_of(pipedream(40), {1, 1}), trace_of(pipedream(100), {1, 2}));
  ASSERT_EQ(d.stages.size(), 2U);
  EXPECT_NEAR(d.stages[0].forward_seconds.ratio(), 1, 1e-6);
  EXPECT_NEAR(d.stages[1].forward_seconds.ratio(), 2, 1e-6);
  EXPECT_NEAR(d.stages[1].backward_seconds.b, 4e-3, 1e-9);
  EXPECT_NEAR(d.stages[1].update_seconds.ratio(), 2, 1e-6);
  EXPECT_NEAR(d.step_seconds.a, 3.1e-3, 1e-6);
  EXPECT_NEAR(d.step_seconds.b, 6.2e-3, 1e-6);
  EXPECT_NEAR(d.stages[0].busy.b, 0.5, 0.02);
  EXPECT_NEAR(d.stages[0].waiting.b, 0.5, 0.02);
  EXPECT_NEAR(d.stages[1].busy.b, 1, 0.01);
}

TEST(TraceDiff, AStepOfAFlushIsItsPeriod) {
  const planner::schedule_request flush{.name = "1f1b", .replicas = {1, 1}, .microbatches = 4, .minibatches = 5};
  const auto d = compare_traces(trace_of(flush, {1, 1}), trace_of(flush, {1, 1}));
  EXPECT_NEAR(d.step_seconds.a, 5 * 3e-3 + 1e-4, 1e-9);
  EXPECT_EQ(d.step_seconds.ratio(), 1);
}

TEST(TraceDiff, ARunTooShortToBeSteadyCountsAsAWhole) {
  const auto d = compare_traces(trace_of(pipedream(1), {1, 1}), trace_of(pipedream(2), {1, 1}));
  EXPECT_NEAR(d.step_seconds.a, 6.1e-3, 1e-9); // both stages' updates begin with their backwards' ends
}

std::string refusal_of(const trace_file& a, const trace_file& b) {
  try {
    compare_traces(a, b);
  } catch (const error& refused) {
    return refused.what();
  }
  return {};
}

TEST(TraceDiff, OtherModelsAndOtherLayersAreRefused) {
  auto a = trace_of(pipedream(5), {1, 1}), b = a;
  b.header.model = "another";
  EXPECT_EQ(refusal_of(a, b), "the traces cannot be compared: the model is toy in the first and another in the second");
  b = a;
  set_layers(a.header, {"conv1 .. conv2", "fc1"});
  EXPECT_EQ(refusal_of(a, b), "") << "one of them does not name its layers";
  set_layers(b.header, {"conv1 .. conv2", "fc1 .. fc2"});
  EXPECT_EQ(refusal_of(a, b), "the traces cannot be compared: the layers of toy are conv1 .. fc1 in the first and "
                              "conv1 .. fc2 in the second");
  set_layers(b.header, {"conv1 .. conv2", "fc1 .. fc1"});
  EXPECT_EQ(refusal_of(a, b), "");
}

TEST(TraceDiff, SchedulesOfOnePartitionAreComparedByStageAndTheDifferenceIsSaid) {
  const auto d =
      compare_traces(trace_of(pipedream(40), {1, 1}),
                     trace_of({.name = "2bw", .replicas = {1, 1}, .microbatches = 2, .minibatches = 40}, {1, 1}));
  EXPECT_THAT(d.differences, ::testing::ElementsAre("schedule: pipedream in A, 2bw in B",
                                                    "micro-batches per minibatch: 1 in A, 2 in B"));
  ASSERT_EQ(d.stages.size(), 2U);
  EXPECT_TRUE(d.is_per_minibatch);
  EXPECT_NEAR(d.stages[0].forward_seconds.a, 1e-3, 1e-9);
  EXPECT_NEAR(d.stages[0].forward_seconds.b, 2e-3, 1e-9) << "two micro-batches of 1 ms";
  EXPECT_NEAR(d.step_seconds.a, 3.1e-3, 1e-6);
  EXPECT_NEAR(d.step_seconds.b, 6.1e-3, 1e-5);
  EXPECT_NEAR(d.staleness.a, 0.5, 0.05);
  EXPECT_NEAR(d.staleness.b, 1, 0.05);
}

TEST(TraceDiff, OtherPartitionsAreComparedAsAWhole) {
  auto a = trace_of(pipedream(40), {1, 1}),
       b = trace_of({.name = "pipedream", .replicas = {1}, .minibatches = 40}, {2});
  set_layers(a.header, {"conv1 .. conv2", "fc1"});
  set_layers(b.header, {"conv1 .. fc1"});
  auto d = compare_traces(a, b);
  EXPECT_TRUE(d.stages.empty());
  EXPECT_NEAR(d.step_seconds.b, 6.2e-3, 1e-5);
  EXPECT_NEAR(d.busy.b, 1, 0.01);
  EXPECT_THAT(d.differences, ::testing::Contains("layers: conv1 .. conv2 | fc1 in A, conv1 .. fc1 in B"));
  b = a;
  set_layers(b.header, {"conv1", "conv2 .. fc1"});
  d = compare_traces(a, b);
  EXPECT_TRUE(d.stages.empty());
  EXPECT_THAT(to_text(d, a, b), HasSubstr("nothing to compare by stage"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(d, a, b)).at("stages").empty());
}

class TraceDiffCommand : public ::testing::Test {
protected:
  TraceDiffCommand() {
    trace_of(pipedream(40), {1, 1}, a_.path().string());
    trace_of(pipedream(30), {1, 2}, b_.path().string());
  }
  int run(std::vector<std::string> words) {
    out_.str("");
    err_.str("");
    return trace_command(words, out_, err_);
  }
  scratch_file a_{"a.pftrace"}, b_{"b.pftrace"};
  std::ostringstream out_, err_;
};

TEST_F(TraceDiffCommand, PrintsATable) {
  ASSERT_EQ(run({"diff", a_.path().string(), b_.path().string()}), 0) << err_.str();
  EXPECT_THAT(out_.str(), ::testing::ContainsRegex("step ms .mean, steady state. +3.100 +6.200 +2.000\n"));
  EXPECT_THAT(out_.str(), ::testing::ContainsRegex("1 +forward ms +1.000 +2.000 +2.000\n"));
  const auto text = out_.str().substr(out_.str().find("\n\n"));
  for (std::size_t from = 0; from < text.size(); from = text.find('\n', from) + 1)
    EXPECT_LE(text.find('\n', from) - from, 80U) << text.substr(from, 120);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(TraceDiffCommand, PrintsJson) {
  ASSERT_EQ(run({"diff", a_.path().string(), b_.path().string(), "--json"}), 0) << err_.str();
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_NEAR(json["stages"][1]["backward_seconds"]["ratio"].get<double>(), 2, 1e-6);
  EXPECT_NEAR(json["step_seconds"]["b"].get<double>(), 6.2e-3, 1e-6);
  EXPECT_EQ(json["a"]["minibatches"], 40);
}

TEST_F(TraceDiffCommand, RefusalsAreOneLine) {
  const auto expect = [&](int code, std::vector<std::string> words, const std::string& part) {
    EXPECT_EQ(run(std::move(words)), code);
    const auto text = err_.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(out_.str(), "");
  };
  const auto a = a_.path().string(), b = b_.path().string();
  expect(2, {"diff", a}, "trace diff: no second FILE given");
  expect(2, {"diff", a, b, a}, "one word too many");
  expect(1, {"diff", a, b + ".not"}, "cannot read trace");
  make_run({.name = "pipedream", .replicas = {1, 1}}, {5}).write(b_.path());
  expect(1, {"diff", a, b}, "the model is toy in the first and synthetic in the second");
}

} // namespace
} // namespace penstock::actors
