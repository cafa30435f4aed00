// The schedules that split the backward: their orders, their bounds, and the bubbles of the literature.
#include "planner/check_schedule.hpp"
#include "planner/machine.hpp"
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace penstock::planner::testing {
namespace {

using lists = std::vector<std::string>;

TEST(ZeroBubble, H1DelaysOneWeightGradientMoreWithEveryStage) {
  EXPECT_EQ(texts_of(resolve_schedule(request("zb-h1", {1, 1, 1}, 4, 1))),
            (lists{"F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3 U0",
                   "F0.0 F0.1 I0.0 F0.2 I0.1 W0.0 F0.3 I0.2 W0.1 I0.3 W0.2 W0.3 U0",
                   "F0.0 I0.0 F0.1 I0.1 F0.2 I0.2 W0.0 F0.3 I0.3 W0.1 W0.2 W0.3 U0"}));
}

TEST(ZeroBubble, H2HasTwiceTheForwardsInFlightAndTwiceTheDelay) {
  EXPECT_EQ(texts_of(resolve_schedule(request("zb-h2", {1, 1}, 4, 1))),
            (lists{"F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3 U0",
                   "F0.0 I0.0 F0.1 I0.1 F0.2 I0.2 W0.0 F0.3 I0.3 W0.1 W0.2 W0.3 U0"}));
  const auto s = resolve_schedule(request("zb-h2", {1, 1, 1, 1}, 8, 1));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(s.stages[i].credit, 2 * (4 - static_cast<int>(i)) - 1);
    EXPECT_EQ(s.stages[i].delayed_weight_gradients, 2 * static_cast<int>(i));
    EXPECT_EQ(s.stages[i].readable_versions, 1);
  }
}

TEST(ZeroBubble, EveryMinibatchIsFlushedBeforeItsUpdate) {
  EXPECT_EQ(texts_of(resolve_schedule(request("zb-h1", {1, 1}, 2, 2))),
            (lists{"F0.0 F0.1 B0.0 B0.1 U0 F1.0@1 F1.1@1 B1.0@1 B1.1@1 U1",
                   "F0.0 I0.0 F0.1 I0.1 W0.0 W0.1 U0 F1.0@1 I1.0@1 F1.1@1 I1.1@1 W1.0@1 W1.1@1 U1"}));
}

TEST(ZeroBubble, ReplicasDelayWhatTheirStageHoldsLess) {
  // V = ceil(4 / 1), ceil(3 / 2), ceil(1 / 1)
  const auto h1 = resolve_schedule(request("zb-h1", {1, 2, 1}, 4, 1));
  EXPECT_EQ(h1.stages[0].delayed_weight_gradients, 0);
  EXPECT_EQ(h1.stages[1].delayed_weight_gradients, 4 / 2 - 2);
  EXPECT_EQ(h1.stages[2].delayed_weight_gradients, 4 - 1);
  const auto h2 = resolve_schedule(request("zb-h2", {1, 2, 1}, 4, 1));
  EXPECT_EQ(h2.stages[1].delayed_weight_gradients, (7 + 1) / 2 - 3);
  EXPECT_EQ(h2.stages[2].delayed_weight_gradients, 7 - 1);
  EXPECT_EQ(text_of(h1, 1, 1), "F0.1 F0.3 I0.1 W0.1 I0.3 W0.3 U0") << "the gradient leaves before the weights' part";
}

// What a replica holds, in flight and delayed together, never exceeds what stage 0 holds.
TEST(ZeroBubble, HoldsNowhereMoreThanTheFirstStage) {
  for (const auto* name : {"zb-h1", "zb-h2"})
    for (int n = 1; n <= 6; ++n)
      for (int m = 1; m <= 14; ++m) {
        const auto s = resolve_schedule(request(name, std::vector<int>(static_cast<std::size_t>(n), 1), m, 2));
        for (int stage = 0; stage < n; ++stage) {
          std::int64_t held = 0, most = 0;
          for (const auto& a : list_of(s, stage, 0)) {
            if (a.kind == action_kind::forward) most = std::max(most, ++held);
            if (makes_weight_gradient(a.kind)) --held;
          }
          EXPECT_EQ(most, std::min<std::int64_t>(m, s.stages.front().credit)) << name << " n " << n << " m " << m;
        }
      }
}

TEST(ZeroBubble, PassesTheCheckerWithAnyReplicasCreditsAndMicrobatches) {
  dice d(11);
  for (int round = 0; round < 400; ++round) {
    auto r = random_request(d);
    r.name = d.coin() ? "zb-h1" : "zb-h2";
    r.chunks = 1;
    r.update_lag = {};
    r.microbatches = d.between(0, 9);
    const auto s = resolve_schedule(r);
    EXPECT_EQ(check_schedule(s).value_or(""), "") << show(r);
  }
}

// -- bubbles ------------------------------------------------------------------------------

struct part_times {
  double f, i, w;
};

std::vector<stage_times> balanced(int stages, const part_times& t, double link = 0) {
  return std::vector<stage_times>(static_cast<std::size_t>(stages), {t.f, t.i + t.w, 0, link, link, t.w});
}

std::vector<int> straight(int stages) {
  return std::vector<int>(static_cast<std::size_t>(stages), 1);
}

double makespan(const std::string& name, int n, int m, const part_times& t, int minibatches = 1, double link = 0) {
  return simulate(resolve_schedule(request(name, straight(n), m, minibatches)), balanced(n, t, link)).makespan;
}

TEST(ZeroBubble, H1sBubbleIsTheClosedFormForAsManyMicrobatchesAsStages) {
  for (const auto& t : {part_times{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {2, 1, 1}, {3, 4, 2}, {4, 1, 1}, {1, 4, 0}})
    for (int n = 1; n <= 6; ++n)
      for (int m = n; m <= 14; ++m)
        for (const int minibatches : {1, 3})
          EXPECT_EQ(makespan("zb-h1", n, m, t, minibatches),
                    minibatches * (m * (t.f + t.i + t.w) + (n - 1) * (t.f + (t.i + t.w) - 2 * t.w)))
              << "F " << t.f << " I " << t.i << " W " << t.w << " n " << n << " m " << m;
}

// Beyond W = min(F, I) a stage waits for the first forward or the first gradient all the same.
TEST(ZeroBubble, H1WaitsForTheFirstForwardAndGradientWhereWeightsTakeLonger) {
  for (const auto& t : {part_times{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 3, 5}})
    for (int n = 1; n <= 6; ++n)
      for (int m = n; m <= 14; ++m)
        EXPECT_EQ(makespan("zb-h1", n, m, t), m * (t.f + t.i + t.w) + (n - 1) * std::max(t.f, t.i))
            << "F " << t.f << " I " << t.i << " W " << t.w << " n " << n << " m " << m;
}

// ZB-H2's zero is that of each device's span over minibatches that abut: I <= F, F + I <= 2 W, M >= 2 n - 1.
TEST(ZeroBubble, H2sDevicesNeverWaitOnceTheyHaveBegun) {
  for (const auto& t : {part_times{1, 1, 1}, {2, 1, 2}, {3, 2, 3}, {1, 1, 2}})
    for (int n = 1; n <= 6; ++n)
      for (int m = 2 * n - 1; m <= 14; ++m) {
        const auto run = simulate(resolve_schedule(request("zb-h2", straight(n), m, 5)), balanced(n, t));
        EXPECT_EQ(run.makespan, 5 * m * (t.f + t.i + t.w) + (n - 1) * t.f) << "n " << n << " m " << m;
        for (int stage = 0; stage < n; ++stage) {
          auto begin = std::numeric_limits<double>::infinity(), end = 0.0;
          for (const auto& span : run.spans)
            if (span.stage == stage) {
              begin = std::min(begin, span.begin);
              end = std::max(end, span.end);
            }
          EXPECT_EQ(end - begin, 5 * m * (t.f + t.i + t.w)) << "n " << n << " m " << m << " stage " << stage;
        }
      }
}

TEST(ZeroBubble, OneIsolatedMinibatchTakesH2AsLongAsH1) {
  EXPECT_EQ(makespan("zb-h1", 8, 32, {1, 1, 1}), 103);
  EXPECT_EQ(makespan("zb-h2", 8, 32, {1, 1, 1}), 103);
}

TEST(ZeroBubble, IsNeverSlowerThanOneForwardOneBackward) {
  dice d(3);
  for (int round = 0; round < 1500; ++round) {
    const part_times t{d.time(), d.time(), d.time()};
    const int n = d.between(1, 6), m = d.between(1, 14), minibatches = d.between(1, 4);
    const auto link = d.coin() ? 0 : d.number(0, 1);
    const auto plain = makespan("1f1b", n, m, t, minibatches, link);
    for (const auto* name : {"zb-h1", "zb-h2"})
      EXPECT_LE(makespan(name, n, m, t, minibatches, link), plain * (1 + 1e-12))
          << name << " n " << n << " m " << m << " minibatches " << minibatches << " F " << t.f << " I " << t.i << " W "
          << t.w << " link " << link;
  }
}

// -- the machine --------------------------------------------------------------------------

machine one_stage_machine() {
  machine m;
  for (int stage = 0; stage < 2; ++stage) {
    machine_stage costs;
    costs.devices = {stage};
    costs.backward_seconds = {3};
    costs.weight_seconds = {1};
    costs.kept_bytes = {100};
    costs.delayed_bytes = {30};
    costs.gradient_bytes = 7;
    m.stages.push_back(costs);
  }
  return m;
}

TEST(ZeroBubble, TheMachineTakesTheSplitAndCountsWhatDelayedGradientsHold) {
  const auto s = resolve_schedule(request("zb-h2", {1, 1}, 4, 1));
  const auto run = run_machine(s, one_stage_machine());
  for (const auto& span : run.spans) {
    const auto wanted = span.what.kind == action_kind::forward          ? 1
                        : span.what.kind == action_kind::backward       ? 3
                        : span.what.kind == action_kind::backward_input ? 2
                        : span.what.kind == action_kind::update         ? 0
                                                                        : 1;
    EXPECT_EQ(span.end - span.begin, wanted) << describe(span.what);
  }
  // Stage 1 holds one micro-batch in flight and three delayed ones at most, two while the next is in flight.
  EXPECT_EQ(run.memory[1].activations, 100 + 2 * 30);
  EXPECT_EQ(run.memory[1].gradients, 7);
  EXPECT_EQ(run.memory[0].activations, 3 * 100);
}

TEST(ZeroBubble, TheMachineRefusesAWeightsPartBeyondTheWhole) {
  auto m = one_stage_machine();
  m.stages[1].weight_seconds = {3.5};
  EXPECT_THROW(run_machine(resolve_schedule(request("zb-h1", {1, 1}, 4, 1)), m), std::invalid_argument);
}

TEST(ZeroBubble, RunsWithSendsThatBlock) {
  auto m = one_stage_machine();
  m.blocking_sends = true;
  m.links.push_back({.group = 2, .bytes_per_second = 100});
  for (auto& stage : m.stages)
    stage.output_bytes = {10};
  for (const auto* name : {"zb-h1", "zb-h2"})
    EXPECT_GT(run_machine(resolve_schedule(request(name, {1, 1}, 4, 2)), m).makespan, 0);
}

} // namespace
} // namespace penstock::planner::testing
