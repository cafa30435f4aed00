// What the planner advises when more of a model is frozen.
#include "planner/explore/repack.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using ::testing::HasSubstr;

profile six() {
  return chain_of(
      {{"a", 1, 8, 100}, {"b", 1, 8, 100}, {"c", 1, 8, 100}, {"d", 1, 8, 100}, {"e", 1, 8, 100}, {"f", 1, 8, 100}});
}

plan three_stages(const std::string& schedule, int microbatches) {
  plan p;
  p.schedule = schedule;
  p.microbatches = microbatches;
  p.batch = 8;
  p.threads = 2;
  p.stages = {{.first_layer = "a", .last_layer = "b"},
              {.first_layer = "c", .last_layer = "d"},
              {.first_layer = "e", .last_layer = "f"}};
  return settled(p);
}

TEST(Repack, PacksActiveLayersAndKeepsScheduleMAndBatch) {
  const auto r = repack(six(), flat_cluster(3, 1e12), three_stages("1f1b", 4),
                        {.frozen_until = 4, .steps_left = 100, .change_seconds = 1});
  EXPECT_TRUE(r.is_worth_it) << r.reason;
  EXPECT_LT(r.best.predicted->step_seconds, r.as_is.predicted->step_seconds);
  EXPECT_NEAR(r.saving_seconds, 100 * (r.as_is.predicted->step_seconds - r.best.predicted->step_seconds), 1e-9);
  EXPECT_EQ(r.best.schedule, "1f1b");
  EXPECT_EQ(r.best.microbatches, 4);
  EXPECT_EQ(r.best.batch, 8);
  EXPECT_EQ(r.best.threads, 2);
  EXPECT_EQ(r.best.first_active, "e");
  for (const auto& stage : r.best.stages)
    EXPECT_EQ(stage.replicas, 1) << "they are fixed";
  EXPECT_THAT(r.reason, HasSubstr("saved over 100 steps, a change costs 1 s"));
}

TEST(Repack, ReplicatesOnlyWhereItMay) {
  const freeze_point at{.frozen_until = 5, .steps_left = 1000, .change_seconds = 1, .replicas_free = true};
  const auto free = repack(six(), flat_cluster(4, 1e12), three_stages("1f1b", 4), at);
  auto fixed_at = at;
  fixed_at.replicas_free = false;
  const auto fixed = repack(six(), flat_cluster(4, 1e12), three_stages("1f1b", 4), fixed_at);
  EXPECT_LT(free.best.predicted->step_seconds, fixed.best.predicted->step_seconds) << free.reason;
  EXPECT_GT(workers_of(free.best), workers_of(fixed.best));
  auto uneven = three_stages("1f1b", 4);
  uneven.stages[0].replicas = 2;
  uneven = settled(uneven);
  const auto left = repack(six(), flat_cluster(4, 1e12), uneven, fixed_at);
  EXPECT_FALSE(left.is_worth_it);
  EXPECT_EQ(left.best.stages, left.as_is.stages);
  EXPECT_THAT(left.reason, HasSubstr("as it is"));
}

TEST(Repack, StaysWhereAChangeCostsMoreThanItSaves) {
  freeze_point at{.frozen_until = 4, .steps_left = 100, .change_seconds = 1};
  const auto worth_it = repack(six(), flat_cluster(3, 1e12), three_stages("1f1b", 4), at);
  at.change_seconds = worth_it.saving_seconds;
  EXPECT_FALSE(repack(six(), flat_cluster(3, 1e12), three_stages("1f1b", 4), at).is_worth_it);
  at.change_seconds = worth_it.saving_seconds * 0.99;
  EXPECT_TRUE(repack(six(), flat_cluster(3, 1e12), three_stages("1f1b", 4), at).is_worth_it);
  at.steps_left = 0;
  EXPECT_FALSE(repack(six(), flat_cluster(3, 1e12), three_stages("1f1b", 4), at).is_worth_it);
}

TEST(Repack, KeepsEveryScheduleAndIsNeverSlowerThanWhatThereIs) {
  for (const auto& schedule : schedule_names()) {
    if (schedule == "data-parallel" || schedule == "interleaved") continue;
    const bool by_group = schedule.starts_with("pipedream");
    for (int depth = 0; depth < 6; ++depth) {
      const auto current = three_stages(schedule, by_group ? 1 : 4);
      const auto r = repack(six(), flat_cluster(4, 1e12), current,
                            {.frozen_until = depth, .steps_left = 10, .replicas_free = !by_group});
      SCOPED_TRACE(schedule + " " + std::to_string(depth) + ": " + r.reason);
      EXPECT_EQ(r.best.schedule, schedule);
      EXPECT_EQ(r.best.microbatches, current.microbatches);
      EXPECT_EQ(r.best.frozen_until, depth);
      EXPECT_LE(r.best.predicted->step_seconds, r.as_is.predicted->step_seconds);
      EXPECT_GE(r.saving_seconds, 0);
      EXPECT_EQ(r.as_is.stages.size(), 3U);
    }
  }
}

TEST(Repack, FindsAPlanWhereTheStagesAsTheyAreCannotRun) {
  plan current;
  current.schedule = "interleaved";
  current.microbatches = 4;
  current.batch = 8;
  current.chunks = 2;
  for (const auto* layer : {"a", "b", "c"})
    current.stages.push_back({.first_layer = layer, .last_layer = layer});
  current.stages.push_back({.first_layer = "d", .last_layer = "f"});
  const auto r = repack(six(), flat_cluster(2, 1e12), settled(current), {.frozen_until = 2, .steps_left = 1});
  EXPECT_TRUE(r.is_worth_it);
  EXPECT_FALSE(r.as_is.predicted);
  EXPECT_EQ(frozen_stages_of(r.best), 0);
  EXPECT_THAT(r.reason, HasSubstr("cannot run"));
}

TEST(Repack, TheStagesAsTheyAreKeepTheDevicesThatTheyName) {
  auto c = flat_cluster(4, 1e12);
  c.devices.push_back(c.devices.front());
  c.devices[1].name = "slow";
  c.devices[1].speed = 0.25;
  c.devices[0].count = c.devices[1].count = 2;
  auto current = three_stages("1f1b", 4);
  current.stages.pop_back();
  current.stages[1].last_layer = "f";
  current = settled(current);
  const std::vector<std::string> fast{c.device_name(0), c.device_name(1)}, slow{c.device_name(2), c.device_name(3)};
  const auto seconds_on = [&](const std::vector<std::string>& devices) {
    for (std::size_t s = 0; s < 2; ++s)
      current.stages[s].devices = {devices[s]};
    return repack(six(), c, current, {.frozen_until = 1, .steps_left = 1}).as_is.predicted.value().step_seconds;
  };
  EXPECT_NEAR(seconds_on(slow), 4 * seconds_on(fast), 1e-6);
  EXPECT_NEAR(seconds_on({"elsewhere-0", "elsewhere-1"}), seconds_on(fast), 1e-9) << "none of the cluster's";
}

TEST(Repack, TheStagesAsTheyAreMustFitIntoTheirDevices) {
  // Two hold most of the weights; thawed they need gradients and optimizer state as well.
  auto p = six();
  p.layers[0].weight_bytes = p.layers[1].weight_bytes = 10'000;
  auto c = flat_cluster(3, 1e12);
  c.devices.front().memory_bytes = 45'000;
  auto current = three_stages("1f1b", 4);
  current.optimizer_copies = 1;
  const auto r = repack(p, c, current, {.frozen_until = 0, .steps_left = 1});
  EXPECT_FALSE(r.as_is.predicted);
  EXPECT_TRUE(r.is_worth_it) << r.reason;
  EXPECT_EQ(r.best.stages.front().last_layer, "a");
}

TEST(Repack, HowFarTheSourceRunsAheadFollowsTheReplicasUnlessItWasSaid) {
  auto current = three_stages("1f1b", 4);
  freeze_until(current, 2, {"a", "b", "c", "d", "e", "f"});
  current = settled(current);
  EXPECT_EQ(current.ahead, 1) << "the first active stage's replicas";
  const freeze_point deeper{.frozen_until = 5, .steps_left = 1000, .replicas_free = true};
  for (const auto ahead : {std::int64_t{1}, std::int64_t{3}}) {
    current.ahead = ahead;
    const auto r = repack(six(), flat_cluster(6, 1e12), current, deeper);
    const auto first_active = schedule_of(r.best).first_active().replicas;
    const auto wanted = ahead == 1 ? first_active : ahead;
    EXPECT_EQ(r.best.ahead, frozen_stages_of(r.best) > 0 ? wanted : 0) << r.reason;
    auto as_is = current;
    as_is.stages[2].replicas = 4;
    freeze_until(as_is, 4, {"a", "b", "c", "d", "e", "f"});
    EXPECT_EQ(settled(as_is).ahead, ahead == 1 ? 4 : ahead);
  }
}

TEST(Repack, CreditsThatNoModeGivesUnderSoFewMicrobatchesAreLeftOpen) {
  auto current = three_stages("2bw", 2);
  for (std::size_t s = 0; s < 3; ++s)
    current.stages[s].in_flight = s < 2 ? 2 : 1;
  const auto r = repack(six(), flat_cluster(3, 1e12), settled(current), {.frozen_until = 1, .steps_left = 1});
  EXPECT_EQ(r.best.microbatches, 2);
}

TEST(Repack, RefusesWhatMakesNoSense) {
  const auto fault = [](plan current, const freeze_point& at) {
    return refusal_of([&] { repack(six(), flat_cluster(3, 1e12), current, at); });
  };
  EXPECT_EQ(fault(three_stages("1f1b", 4), {.frozen_until = 6}),
            "frozen_until is layer 6 of 6, wanted 0 to 5: the loss stays active");
  EXPECT_EQ(fault(three_stages("1f1b", 4), {.steps_left = -1}), "the number of steps left is -1, wanted at least 0");
  EXPECT_THAT(fault(three_stages("1f1b", 4), {.change_seconds = -1}), HasSubstr("the cost of a change is -1"));
  auto current = three_stages("1f1b", 4);
  current.batch = 0;
  EXPECT_EQ(fault(current, {}), "batch is 0, wanted at least 1");
}

/// ViT-B/16 on 2 x 8 devices, as PipeTransformer has it (reference: K = 8, 4, 2, 1 stages with 0-4, 5-8, 9-10, 11-12
/// blocks frozen): parameters 7.09 million a block, 605 kB a sample between blocks, 16 micro-batches.
profile vit_b_16(std::int64_t samples) {
  const double n = static_cast<double>(samples), hidden = 197 * 768 * 4 * n;
  std::vector<layer_of> layers{{"embed", 0.02e-3 * n, hidden, 0.74e6 * 4}};
  for (int b = 0; b < 12; ++b) {
    layers.push_back({"block" + std::to_string(b) + ".attention", 0.2e-3 * n, hidden, 2.36e6 * 4});
    layers.push_back({"block" + std::to_string(b) + ".mlp", 0.4e-3 * n, hidden, 4.72e6 * 4});
  }
  layers.push_back({"head", 0.01e-3 * n, 4000 * n, 0.77e6 * 4});
  auto p = chain_of(layers, samples, 3 * 224 * 224 * 4 * n);
  for (auto& cost : p.measurements.front().layers)
    cost.kept_bytes = 9 * cost.output_bytes;
  return p;
}

TEST(Repack, GivesWhatFreezingSetsFreeToReplicasAsPipeTransformerDoes) {
  const auto p = vit_b_16(50);
  auto c = two_levels(8, 2, 15.754e9, 5e9);
  c.devices.front().memory_bytes = 3e9; // so that the whole model needs all eight devices of a host
  plan_request request{.batch = 800, .schedules = {"1f1b"}, .microbatches = {16}};
  request.optimizer_copies = 2;
  request.allow_recompute = false;
  request.in_flight = "tight";
  auto current = make_plan(p, c, request);
  EXPECT_EQ(current.stages.size(), 8U) << describe_stages(current);
  const auto first = current.predicted->step_seconds;
  for (const auto& [blocks, theirs] :
       {std::pair<int, std::size_t>{4, 8}, {5, 4}, {8, 4}, {9, 2}, {10, 2}, {11, 1}, {12, 1}}) {
    const auto before = current;
    const auto r =
        repack(p, c, current,
               {.frozen_until = 1 + 2 * blocks, .steps_left = 5000, .change_seconds = 30, .replicas_free = true});
    current = r.is_worth_it ? r.best : r.as_is;
    SCOPED_TRACE(std::to_string(blocks) + ": " + r.reason);
    EXPECT_LE(current.stages.size(), std::min(theirs, before.stages.size()));
    EXPECT_GE(current.stages.back().replicas, before.stages.back().replicas);
    EXPECT_LT(current.predicted->step_seconds, before.predicted->step_seconds);
    EXPECT_EQ(current.batch, 800) << "theirs grows with the replicas";
  }
  EXPECT_EQ(replicas_of(current), std::vector<int>{16});
  EXPECT_GT(first / current.predicted->step_seconds, 5);
}

} // namespace
} // namespace penstock::planner::testing
