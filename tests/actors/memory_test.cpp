// Weight versions are counted, not copied; activations stay within the credits; nothing grows.
#include "actors/run/executor.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

std::shared_ptr<const model> linear_network() {
  using namespace layers;
  model_builder b("linear", {3, 8, 8});
  auto x = b.add("flatten", flatten(), {b.input()});
  x = b.add("fc1", linear({.in_features = 192, .out_features = 64, .bias = false}), {x});
  x = b.add("relu1", relu(), {x});
  x = b.add("fc2", linear({.in_features = 64, .out_features = 64, .bias = false}), {x});
  x = b.add("relu2", relu(), {x});
  x = b.add("fc3", linear({.in_features = 64, .out_features = 64, .bias = false}), {x});
  x = b.add("relu3", relu(), {x});
  x = b.add("fc4", linear({.in_features = 64, .out_features = 5, .bias = false}), {x});
  return std::make_shared<const model>(b.build(x));
}

run_setup pipeline_of(const char* schedule, std::vector<int> replicas, const char* credits) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  o.cuts = o.replicas.size() == 3   ? std::vector<int>{3, 5}
           : o.replicas.size() == 2 ? std::vector<int>{3}
                                    : std::vector<int>{};
  o.in_flight = planner::parse_in_flight(credits);
  return o;
}

void expect_few_versions(const char* schedule, std::vector<int> replicas, const char* credits, int microbatches,
                         std::int64_t (*allowed)(const planner::stage_schedule&)) {
  SCOPED_TRACE(schedule);
  auto o = pipeline_of(schedule, std::move(replicas), credits);
  o.microbatches = microbatches;
  const auto plan = planner::resolve_schedule(actors::schedule_request_of(o, 1));
  const auto result = train_tiny(o, {.net = linear_network(), .samples = 400});
  for (std::size_t s = 0; s < result.summary.stages.size(); ++s) {
    const auto& stage = result.summary.stages[s];
    EXPECT_LE(stage.peak_weight_bytes, allowed(plan.stages[s]) * stage.weight_bytes) << "stage " << s;
  }
}

std::int64_t versions_and_one(const planner::stage_schedule& s) {
  return s.readable_versions + 1;
}
std::int64_t one_set(const planner::stage_schedule&) {
  return 1;
}

TEST(WeightBytes, StayWithinTheVersionsOfTheTableAndOne) {
  for (const auto* credits : {"tight", "double", "full"}) {
    expect_few_versions("pipedream", {1, 1, 1}, credits, 0, versions_and_one);
    expect_few_versions("pipedream", {2, 1}, credits, 0, versions_and_one);
  }
  expect_few_versions("pipedream-vertical-sync", {1, 1, 1}, "tight", 0, versions_and_one);
  expect_few_versions("2bw", {1, 1, 1}, "tight", 4, versions_and_one);
  expect_few_versions("pipedream-naive", {1, 1, 1}, "tight", 0, versions_and_one);
}

TEST(WeightBytes, AreOneSetInSynchronousSchedules) {
  for (const auto* schedule : {"model-parallel", "gpipe", "1f1b"}) {
    expect_few_versions(schedule, {1, 1, 1}, "tight", 4, one_set);
    expect_few_versions(schedule, {2, 1}, "tight", 4, one_set);
  }
}

TEST(Memory, DoesNotGrowWithTheRun) {
  auto o = pipeline_of("pipedream", {1, 1, 1}, "tight");
  o.eval_every = -1;
  o.steps = 300;
  const auto brief = train_tiny(o, {.net = linear_network()});
  o.steps = 3000;
  const auto longer = train_tiny(o, {.net = linear_network()});
  for (std::size_t s = 0; s < 3; ++s)
    // How long a message's tensors live beyond their use is the scheduler's business, so peaks differ by a few of them.
    EXPECT_LE(longer.summary.stages[s].peak_memory_bytes, brief.summary.stages[s].peak_memory_bytes * 5 / 4)
        << "stage " << s;
}

TEST(Recomputation, KeepsOnlyTheInputsOfEachMicrobatch) {
  auto o = pipeline_of("gpipe", {1, 1}, "tight");
  o.microbatches = 8;
  o.batch = 64;
  const auto peak = [&] {
    const auto result = train_tiny(o, {.net = tiny_residual_network(0), .samples = 256});
    return result.summary.stages[0].peak_memory_bytes - 3 * result.summary.stages[0].weight_bytes;
  };
  const auto kept = peak();
  o.recompute = {true, true};
  const auto again = peak();
  EXPECT_LT(again, kept * 2 / 3) << "eight micro-batches of activations against one and eight inputs";
}

} // namespace
} // namespace penstock::testing
