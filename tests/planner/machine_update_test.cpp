// Updates, all-reduces and memory of the machine, by hand.
#include "planner/machine.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/machine_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace penstock::planner::testing {
namespace {

const simulated_transfer& all_reduce_of(const machine_run& run, std::int64_t update) {
  return *std::find_if(run.transfers.begin(), run.transfers.end(),
                       [&](const auto& t) { return t.what == transfer_kind::all_reduce && t.minibatch == update; });
}

/// Two replicas of one stage, a micro-batch each: F 0..1, B 1..3, then whatever the update waits for.
machine_run pair_of_replicas(machine_stage stage, machine_link link, std::int64_t minibatches = 1) {
  link.group = 2;
  link.bytes_per_second = 1;
  return run_machine(resolve_schedule(request("data-parallel", {2}, 2, minibatches)),
                     uniform_machine({2}, stage, {link}));
}

TEST(MachineUpdate, AnAllReduceEndsABucketAfterTheBackwardWhereItHides) {
  // 2 (m - 1) / m of 0.8 bytes are 0.8 s in 16 buckets of 0.05, ready every 0.125 s of the backward.
  ASSERT_EQ(all_reduce_buckets, 16);
  const auto run = pair_of_replicas({.update_seconds = 0.5, .all_reduce_bytes = 0.8}, {});
  EXPECT_DOUBLE_EQ(all_reduce_of(run, 0).begin, 1.125);
  EXPECT_DOUBLE_EQ(all_reduce_of(run, 0).end, 3.05);
  EXPECT_DOUBLE_EQ(span_of(run, action_kind::update, 0, 0, 0, 0).begin, 3.05);
  EXPECT_DOUBLE_EQ(span_of(run, action_kind::update, 0, 0, 0, 1).begin, 3.05);
  EXPECT_DOUBLE_EQ(run.makespan, 3.55);
  EXPECT_DOUBLE_EQ(run.bytes_sent, 1.6);
}

TEST(MachineUpdate, AnAllReduceLongerThanTheBackwardIsExposed) {
  // 16 buckets of half a second, the first at 1.125.
  const auto run = pair_of_replicas({.update_seconds = 0.5, .all_reduce_bytes = 8}, {});
  EXPECT_DOUBLE_EQ(all_reduce_of(run, 0).end, 9.125);
  EXPECT_DOUBLE_EQ(run.makespan, 9.625);
  EXPECT_DOUBLE_EQ(run.all_reduce_seconds[0], 8);
}

TEST(MachineUpdate, WithoutOverlapAnAllReduceFollowsTheBackward) {
  machine_stage stage{.update_seconds = 0.5, .all_reduce_bytes = 0.8, .all_reduce_overlaps = false};
  EXPECT_DOUBLE_EQ(pair_of_replicas(stage, {}).makespan, 3 + 0.8 + 0.5);
  EXPECT_DOUBLE_EQ(pair_of_replicas(stage, {.latency_s = 0.25}).makespan, 3 + 0.8 + 2 * 0.25 + 0.5);
  EXPECT_DOUBLE_EQ(pair_of_replicas(stage, {.half_duplex = true}).makespan, 3 + 2 * 0.8 + 0.5);
  EXPECT_DOUBLE_EQ(pair_of_replicas(stage, {.shared = true}).makespan, 3 + 2 * 0.8 + 0.5);
}

TEST(MachineUpdate, WorkersOfOneProcessSumOnTheFirstAndUpdateOnce) {
  const auto run = pair_of_replicas({.update_seconds = 0.5, .all_reduce_bytes = 0.8}, {.by_reference = true});
  EXPECT_DOUBLE_EQ(all_reduce_of(run, 0).begin, 3);
  EXPECT_DOUBLE_EQ(span_of(run, action_kind::update, 0, 0).begin, 3.8);
  EXPECT_DOUBLE_EQ(run.makespan, 4.3);
  EXPECT_EQ(std::count_if(run.spans.begin(), run.spans.end(),
                          [](const auto& s) { return s.what.kind == action_kind::update; }),
            1);
}

TEST(MachineUpdate, AnUpdateWaitsForTheSlowestReplica) {
  // Three micro-batches on two replicas: replica 0 has two of them and ends at 6, so both update then.
  const auto run = run_machine(resolve_schedule(request("data-parallel", {2}, 3, 1)),
                               uniform_machine({2}, {.update_seconds = 1}, flat(2, 0)));
  EXPECT_EQ(span_of(run, action_kind::update, 0, 0, 0, 0).begin, 6);
  EXPECT_EQ(span_of(run, action_kind::update, 0, 0, 0, 1).begin, 6);
}

TEST(MachineUpdate, ReplicasGoOnWithWhatNeedsNoNewVersion) {
  // 2bw: the update of minibatch 0 stands behind the forwards of minibatch 1, and backwards of minibatch 1, which read
  // version 0, need not wait for its slow all-reduce.
  const auto s = resolve_schedule(request("2bw", {2}, 2, 4));
  const auto run = run_machine(s, uniform_machine({2}, {.all_reduce_bytes = 6}, flat(2, 1)));
  const auto& reduce = all_reduce_of(run, 0);
  const auto& backward = span_of(run, action_kind::backward, 0, 1, 0);
  EXPECT_EQ(backward.what.version, 0);
  EXPECT_LT(backward.begin, reduce.end);
  EXPECT_GE(span_of(run, action_kind::forward, 0, 2, 0).begin, reduce.end);
}

TEST(MachineUpdate, MessagesFindRoomBetweenBuckets) {
  // Stage 1 has the replicas; its all-reduce (8 s) begins at 2.25 while the gradient of minibatch 0, ready at 4, needs
  // the same way out of device 1: it waits for the bucket under way, not for all of them.
  const auto s = resolve_schedule(request("1f1b", {1, 2}, 2, 1));
  auto m = uniform_machine({1, 2}, {}, flat(3, 1));
  m.stages[1].all_reduce_bytes = 8;
  const auto run = run_machine(s, m);
  const auto gradient = std::find_if(run.transfers.begin(), run.transfers.end(),
                                     [](const auto& t) { return t.what == transfer_kind::gradient; });
  m.stages[0].output_bytes = {0.5};
  const auto loaded = run_machine(s, m);
  const auto late = std::find_if(loaded.transfers.begin(), loaded.transfers.end(),
                                 [](const auto& t) { return t.what == transfer_kind::gradient; });
  ASSERT_NE(gradient, run.transfers.end());
  ASSERT_NE(late, loaded.transfers.end());
  EXPECT_LE(late->begin - span_of(loaded, action_kind::backward, 1, 0, 0).end, 1);
  EXPECT_GT(all_reduce_of(loaded, 0).end, late->end);
}

TEST(MachineUpdate, APartialGroupIsUpdatedByEveryReplica) {
  const auto run = run_machine(resolve_schedule(request("pipedream", {2, 1}, 1, 3)),
                               uniform_machine({2, 1}, {.update_seconds = 1, .all_reduce_bytes = 1}, flat(3, 1)));
  for (int replica = 0; replica < 2; ++replica)
    EXPECT_GE(span_of(run, action_kind::update, 0, 1, 0, replica).begin, all_reduce_of(run, 1).end);
}

/// Balanced stages whose all-reduce takes `exposed` periods and begins when its backwards are done.
double speed_of(const std::vector<int>& replicas, double exposed, std::int64_t lag) {
  auto r = request("pipedream", replicas, 1, 1, "full");
  r.update_lag = {lag};
  auto s = resolve_schedule(r);
  s.minibatches = steady_minibatches(s);
  const auto devices = std::accumulate(replicas.begin(), replicas.end(), 0);
  auto m = uniform_machine(replicas, {.all_reduce_overlaps = false}, flat(devices, 1));
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    auto& stage = m.stages[i];
    const double count = replicas[i];
    stage.forward_seconds = {count};
    stage.backward_seconds = {2 * count};
    if (replicas[i] > 1) stage.all_reduce_bytes = exposed * 3 * count * count / (2 * (count - 1));
  }
  return 3 / run_machine(s, m).step_seconds;
}

TEST(MachineUpdate, ALagHidesAnAllReduceBehindTheNextMinibatches) {
  for (const auto& replicas :
       std::vector<std::vector<int>>{{4}, {2}, {2, 1}, {1, 2}, {3, 1}, {2, 2}, {1, 2, 1}, {4, 2}})
    for (const double exposed : {0.25, 0.5, 0.9}) {
      SCOPED_TRACE(::testing::PrintToString(replicas) + " with " + std::to_string(exposed) + " of a period");
      EXPECT_NEAR(speed_of(replicas, exposed, 0), 1 / (1 + exposed), 0.015) << "0.80, 0.67, 0.53";
      EXPECT_NEAR(speed_of(replicas, exposed, 1), 1, 0.015);
    }
}

TEST(MachineUpdate, OlderUpdatesAreSummedFirst) {
  // 4 s each, and a period is 3 s: were they to take turns bucket by bucket, the first would end far later.
  auto r = request("pipedream", {3}, 1, 30);
  r.update_lag = {4};
  const auto run = run_machine(resolve_schedule(r),
                               uniform_machine({3}, {.all_reduce_bytes = 3, .all_reduce_overlaps = false}, flat(3, 1)));
  for (int update = 0; update < 10; ++update)
    EXPECT_NEAR(all_reduce_of(run, update).end, 7 + 4 * update, 1e-9) << update;
}

TEST(MachineUpdate, ALagHoldsMoreVersionsAndGradientSets) {
  for (const std::int64_t lag : {0, 1, 2}) {
    auto r = request("pipedream", {4}, 1, 40);
    r.update_lag = {lag};
    auto m = uniform_machine({4}, {.all_reduce_bytes = 0.4, .all_reduce_overlaps = false}, flat(4, 1));
    m.stages[0].weight_bytes = 100;
    m.stages[0].gradient_bytes = 10;
    const auto run = run_machine(resolve_schedule(r), m);
    EXPECT_EQ(run.memory[0].versions, 1 + lag) << "an update is made as soon as its sum is there";
    EXPECT_EQ(run.memory[0].gradients, 10) << "and gives its gradients back";
    m.stages[0].all_reduce_bytes = 40; // it holds everything up
    EXPECT_EQ(run_machine(resolve_schedule(r), m).memory[0].gradients, 10 * static_cast<double>(1 + lag));
  }
}

// -- memory -----------------------------------------------------------------------------------

machine_stage heavy() {
  return {.output_bytes = {10},
          .weight_bytes = 1000,
          .gradient_bytes = 1000,
          .optimizer_bytes = 500,
          .state_bytes = 7,
          .kept_bytes = {100},
          .workspace_bytes = {30}};
}

TEST(MachineMemory, OneStageHoldsOneOfEverything) {
  const auto run = run_machine(resolve_schedule(request("pipedream", {1}, 1, 5)), uniform_machine({1}, heavy()));
  const auto& m = run.memory[0];
  EXPECT_EQ(m.versions, 1); // nobody else holds it: written in place
  EXPECT_EQ(m.weights, 1000);
  EXPECT_EQ(m.gradients, 1000);
  EXPECT_EQ(m.optimizer_state, 500);
  EXPECT_EQ(m.activations, 100); // the last stage sends nothing
  EXPECT_EQ(m.workspace, 30);
  EXPECT_EQ(m.total, 1000 + 1000 + 500 + 7 + 100 + 30);
}

TEST(MachineMemory, PipedreamKeepsAVersionAndTheActivationsForEachInFlight) {
  for (int n = 1; n <= 5; ++n) {
    const auto run =
        run_machine(resolve_schedule(request("pipedream", ones(n), 1, 20)), uniform_machine(ones(n), heavy()));
    for (int s = 0; s < n; ++s) {
      const auto& m = run.memory[static_cast<std::size_t>(s)];
      EXPECT_EQ(m.versions, n - s);
      EXPECT_EQ(m.weights, 1000 * (n - s));
      EXPECT_EQ(m.gradients, 1000);
      EXPECT_GE(m.activations, 100 * (n - s));
      EXPECT_LE(m.activations, 100 * (n - s) + 10 * (n - s + 1));
    }
  }
}

TEST(MachineMemory, SynchronousSchedulesKeepOneVersionAndDoubleBuffersTwo) {
  const auto weights = [](const char* name, int m) {
    return run_machine(resolve_schedule(request(name, ones(3), m, 6)), uniform_machine(ones(3), heavy())).memory[0];
  };
  EXPECT_EQ(weights("1f1b", 4).weights, 1000);
  EXPECT_EQ(weights("1f1b", 4).gradients, 1000);
  EXPECT_EQ(weights("gpipe", 4).weights, 1000);
  EXPECT_EQ(weights("2bw", 4).weights, 2000);
  EXPECT_EQ(weights("2bw", 4).gradients, 2000); // the next minibatch's backwards begin before the update
}

TEST(MachineMemory, VerticalSyncKeepsVersionsThatMinibatchesMayStillName) {
  const auto run = run_machine(resolve_schedule(request("pipedream-vertical-sync", ones(3), 1, 20)),
                               uniform_machine(ones(3), heavy()));
  for (const auto& m : run.memory)
    EXPECT_EQ(m.versions, 3);
}

TEST(MachineMemory, NaivePipedreamKeepsTheNewestOnly) {
  const auto run =
      run_machine(resolve_schedule(request("pipedream-naive", ones(3), 1, 20)), uniform_machine(ones(3), heavy()));
  for (const auto& m : run.memory)
    EXPECT_EQ(m.versions, 1);
}

TEST(MachineMemory, GpipeKeepsTheWholeMinibatch) {
  const auto run =
      run_machine(resolve_schedule(request("gpipe", ones(2), 6, 2)), uniform_machine(ones(2), heavy(), flat(2, 1e9)));
  // Stage 1 also holds the copy of the activation that it works on, and the gradient that it makes.
  EXPECT_NEAR(run.memory[0].activations, 600 + 10, 10);
  EXPECT_NEAR(run.memory[1].activations, 600 + 10, 10);
}

TEST(MachineMemory, TensorsBetweenStagesAreTheSendersUntilTheyArrive) {
  // One micro-batch: F 0..1, sent 1..11, F 11..12 and B 12..14 on stage 1, sent 14..24, B 24..26.
  const auto peak = [](bool by_reference) {
    machine_stage stage{.output_bytes = {10}};
    auto links = flat(2, 1);
    links[0].by_reference = by_reference;
    return run_machine(resolve_schedule(request("1f1b", ones(2), 1, 1)), uniform_machine(ones(2), stage, links)).memory;
  };
  const auto copied = peak(false);
  EXPECT_EQ(copied[0].activations, 10); // its output; later the gradient's copy
  EXPECT_EQ(copied[1].activations, 10); // the copy; later the gradient
  // Two of them where the second stage is slower to take them than the first to make them.
  const auto s = resolve_schedule(request("1f1b", ones(2), 2, 1, "2,1"));
  auto m = uniform_machine(ones(2), {.output_bytes = {10}}, flat(2, 0));
  m.stages[1].forward_seconds = {5};
  EXPECT_EQ(run_machine(s, m).memory[0].activations, 10); // arrives at once, and is the receiver's
  EXPECT_EQ(run_machine(s, m).memory[1].activations, 20); // two copies, later one and a gradient
  m.links[0].by_reference = true;
  EXPECT_EQ(run_machine(s, m).memory[0].activations, 20);
  EXPECT_EQ(run_machine(s, m).memory[1].activations, 10);
}

TEST(MachineMemory, SharedVersionsCountOnEveryReplica) {
  auto m = uniform_machine({2, 1}, heavy(), flat(3, 1e9));
  m.links[0].by_reference = true;
  const auto run = run_machine(resolve_schedule(request("pipedream", {2, 1}, 1, 20)), m);
  EXPECT_EQ(run.memory[0].versions, 2);
  EXPECT_EQ(run.memory[0].weights, 2000);
}

} // namespace
} // namespace penstock::planner::testing
