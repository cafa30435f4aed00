// The machine against the closed forms of reference/schedules.md section 1.2, and links by hand.
#include "planner/machine.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/machine_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::planner::testing {
namespace {

/// F 1, B 2, one transfer takes `transfer` and has the wire between two stages for itself, one way each.
machine balanced(int stages, double transfer) {
  auto m = uniform_machine(ones(stages), {.output_bytes = {transfer}}, flat(stages, 1));
  m.links[0].point_to_point = true;
  return m;
}

double makespan(const schedule_request& r, const machine& m) {
  return run_machine(resolve_schedule(r), m).makespan;
}

TEST(Machine, StreamingTransfersTakeTheClosedForm) { // 1F1B-AS
  for (int n = 1; n <= 6; ++n)
    for (int m = 1; m <= 12; ++m) {
      const auto run = run_machine(resolve_schedule(request("1f1b", ones(n), m, 1)), balanced(n, 0));
      EXPECT_EQ(run.makespan, (m + n - 1) * 3) << "n " << n << " m " << m;
      EXPECT_NEAR(run.bubble(), (n - 1.0) / (m + n - 1), 1e-12);
      for (int i = 0; i < n; ++i)
        EXPECT_EQ(run.peak_in_flight[static_cast<std::size_t>(i)], std::min(m, n - i));
    }
}

TEST(Machine, OverlappedTransfersTakeTheClosedFormUpToHalfAPeriod) { // 1F1B-SO, links used one message at a time
  for (int n = 2; n <= 6; ++n)
    for (int m = 1; m <= 20; ++m)
      for (const auto transfer : {0.125, 0.25, 0.5, 1.0, 1.5}) {
        const auto run = run_machine(resolve_schedule(request("1f1b", ones(n), m, 1, "double")), balanced(n, transfer));
        EXPECT_DOUBLE_EQ(run.makespan, (m + n - 1) * 3 + 2 * (n - 1) * transfer)
            << "n " << n << " m " << m << " transfer " << transfer;
        for (int i = 0; i < n; ++i)
          EXPECT_EQ(run.peak_in_flight[static_cast<std::size_t>(i)], std::min(m, 2 * (n - 1 - i) + 1));
      }
}

/// Time per micro-batch of one long flush.
double period(schedule_request r, const machine& m, int filled = 240) {
  r.microbatches = 2 * filled;
  const auto longer = makespan(r, m);
  r.microbatches = filled;
  return (longer - makespan(r, m)) / filled;
}

TEST(Machine, LinksBeyondHalfAPeriodDegradeOverlap) {
  // Of four stages the sharp limit is there: 1.5 hides, 1.6 and 2 do not.
  const auto r = request("1f1b", ones(4), 1, 1, "double");
  EXPECT_DOUBLE_EQ(period(r, balanced(4, 1.5)), 3);
  EXPECT_NEAR(period(r, balanced(4, 1.6)), 3.09, 0.02);
  EXPECT_NEAR(period(r, balanced(4, 2.0)), 3.45, 0.06);
}

TEST(Machine, BlockingSendsTakeOneTransferLessThanTheUpperBound) { // 1F1B-SNO, paired
  for (int n = 2; n <= 7; ++n)
    for (int m = n; m <= 20; ++m)
      for (const auto transfer : {0.125, 0.25, 0.5, 1.0}) {
        auto machine = balanced(n, transfer);
        machine.blocking_sends = true;
        const auto expected = (m + n - 1) * 3 + (n == 2 ? m + 1 : 2 * (m + n) - 5) * transfer;
        EXPECT_DOUBLE_EQ(makespan(request("1f1b", ones(n), m, 1), machine), expected)
            << "n " << n << " m " << m << " transfer " << transfer;
      }
}

TEST(Machine, TightCreditsPayForLinksEveryPeriod) {
  for (int n = 2; n <= 8; ++n)
    EXPECT_NEAR(period(request("1f1b", ones(n), 1, 1), balanced(n, 0.25)), 3 + 2 * 0.25 * (n - 1) / n, 0.01);
}

struct sweep_point {
  double alpha; // share of the doubling
  double exact_order;
  double wide_window;
};

TEST(Machine, PartialCreditsBuyPartialOverlap) {
  constexpr int n = 8;
  for (const auto& point : {sweep_point{0, 0.873, 0.873}, sweep_point{0.25, 0.889, 0.923},
                            sweep_point{0.5, 0.923, 0.952}, sweep_point{0.75, 0.923, 0.980}, sweep_point{1, 1, 1}}) {
    auto r = request("1f1b", ones(n), 1, 1);
    r.in_flight.kind = in_flight_spec::mode::given;
    for (int i = 1; i <= n; ++i)
      r.in_flight.given.push_back(1 + (n - i) + static_cast<std::int64_t>(std::ceil(point.alpha * (n - i))));
    EXPECT_NEAR(3 / period(r, balanced(n, 0.25), 1000), point.exact_order, 0.0006) << "alpha " << point.alpha;
    r.window = 1000;
    EXPECT_NEAR(3 / period(r, balanced(n, 0.25), 1000), point.wide_window, 0.0006) << "alpha " << point.alpha;
  }
}

TEST(Machine, TheSimulatorIsTheMachineWithoutLinks) {
  const auto s = resolve_schedule(request("pipedream", {2, 1, 3}, 1, 30));
  const auto run = run_machine(s, uniform_machine({2, 1, 3}, {.update_seconds = 0.5}));
  const auto plain = simulate(s, std::vector<stage_times>(3, {1, 2, 0.5}));
  EXPECT_EQ(run.makespan, plain.makespan);
  EXPECT_EQ(run.busy, plain.busy);
}

// -- links by hand ----------------------------------------------------------------------

/// Two first-stage replicas each forward one micro-batch at time 1 to the one of the second stage; 4 s of bytes.
machine two_senders(machine_link link) {
  link.group = 3;
  link.bytes_per_second = 1;
  return uniform_machine({2, 1}, {.output_bytes = {4}}, {link});
}

TEST(Machine, AReceiverTakesOneMessageAtATime) {
  const auto run = run_machine(resolve_schedule(request("gpipe", {2, 1}, 2, 1)), two_senders({.latency_s = 0.5}));
  ASSERT_EQ(run.transfers.size(), 4U);
  EXPECT_EQ(run.transfers[0].begin, 1);
  EXPECT_EQ(run.transfers[0].end, 5.5); // 4 s of bytes and the latency
  EXPECT_EQ(run.transfers[1].begin, 5); // the latency holds nothing
  EXPECT_EQ(run.transfers[1].end, 9.5);
  EXPECT_EQ(run.transfers[1].replica, 1);
  EXPECT_EQ(span_of(run, action_kind::forward, 1, 0, 1).begin, 9.5);
  EXPECT_EQ(run.bytes_sent, 16);
}

/// Stage 1's forwards end at 1 + 4 + 1 = 6 while the second activation is still under way until 9.
TEST(Machine, HalfDuplexDirectionsTakeTurns) {
  const auto s = resolve_schedule(request("1f1b", {1, 1}, 2, 1, "2,1"));
  const auto at = [&](bool half_duplex) {
    const auto run = run_machine(s, uniform_machine({1, 1}, {.output_bytes = {4}},
                                                    {{.group = 2, .bytes_per_second = 1, .half_duplex = half_duplex}}));
    return *std::find_if(run.transfers.begin(), run.transfers.end(),
                         [](const auto& t) { return t.what == transfer_kind::gradient; });
  };
  // F0 ends at 1, its activation holds 1..5, that of F1 5..9; stage 1: F 5..6, B 6..8, gradient.
  EXPECT_EQ(at(false).begin, 8);
  EXPECT_EQ(at(true).begin, 9);
}

TEST(Machine, ASharedMediumCarriesOneMessageAWay) {
  // Two pipelines side by side: devices 0 to 2 and 1 to 3 of one shared level.
  auto m = uniform_machine({2, 2}, {.output_bytes = {4}}, {{.group = 4, .bytes_per_second = 1}});
  const auto s = resolve_schedule(request("gpipe", {2, 2}, 2, 1));
  EXPECT_EQ(run_machine(s, m).transfers[1].begin, 1);
  m.links[0].shared = true;
  const auto run = run_machine(s, m);
  EXPECT_EQ(run.transfers[1].begin, 5);
  EXPECT_EQ(span_of(run, action_kind::forward, 1, 0, 1).begin, 9);
  // Gradients go the other way at the same time: ready at 8, when the second activation still holds its way.
  EXPECT_EQ(run.transfers[2].begin, 8);
  m.links[0].half_duplex = true;
  EXPECT_EQ(run_machine(s, m).transfers[2].begin, 9);
}

TEST(Machine, AMessageTakesTheInnermostLevelThatJoinsItsEnds) {
  const std::vector<machine_link> links{{.group = 2, .bytes_per_second = 4}, {.group = 2, .bytes_per_second = 1}};
  const auto run = run_machine(resolve_schedule(request("gpipe", ones(4), 1, 1)),
                               uniform_machine(ones(4), {.output_bytes = {4}}, links));
  const auto seconds = [&](std::size_t i) { return run.transfers[i].end - run.transfers[i].begin; };
  EXPECT_EQ(seconds(0), 1);
  EXPECT_EQ(seconds(1), 4);
  EXPECT_EQ(seconds(2), 1);
}

TEST(Machine, StagesOnOneDeviceTakeTurnsAndSendNothing) {
  auto m = balanced(2, 4);
  m.stages[1].devices = {0};
  const auto run = run_machine(resolve_schedule(request("pipedream", ones(2), 1, 10)), m);
  EXPECT_EQ(run.makespan, 10 * 2 * 3);
  EXPECT_EQ(run.bytes_sent, 0);
}

TEST(Machine, MicrobatchesMayDiffer) {
  auto m = balanced(1, 0);
  m.stages[0].forward_seconds = {3, 2, 2};
  m.stages[0].backward_seconds = {6, 4, 4};
  m.stages[0].accumulate_seconds = 0.5; // of the second and third
  EXPECT_EQ(makespan(request("1f1b", {1}, 3, 2), m), 2 * (21 + 2 * 0.5));
}

// -- stragglers and jitter -----------------------------------------------------------------

TEST(Machine, AStragglerSlowsItsDeviceOnly) {
  const auto s = resolve_schedule(request("pipedream", ones(3), 1, 40, "full"));
  const auto run = run_machine(s, balanced(3, 0), {.stragglers = {{1, 2}}});
  EXPECT_EQ(run.busy[0], 120);
  EXPECT_EQ(run.busy[1], 240);
  EXPECT_DOUBLE_EQ(run.step_seconds, 6);
}

TEST(Machine, JitterIsOfTheActionAndHasMeanOne) {
  const auto s = resolve_schedule(request("pipedream", ones(4), 1, 3000));
  const machine_options options{.jitter = 0.3, .seed = 7};
  const auto run = run_machine(s, balanced(4, 0), options);
  const auto slower = run_machine(s, balanced(4, 0.5), options);
  double sum = 0, squares = 0;
  std::int64_t count = 0;
  for (const auto& span : run.spans) {
    if (span.what.kind != action_kind::forward) continue;
    sum += span.end - span.begin;
    squares += (span.end - span.begin) * (span.end - span.begin);
    ++count;
  }
  const auto mean = sum / static_cast<double>(count);
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count) - mean * mean), 0.3, 0.01);
  // Busy times are sums of the same numbers in the same order on each stage, whatever the links do.
  for (std::size_t i = 0; i < run.busy.size(); ++i)
    EXPECT_NEAR(run.busy[i], slower.busy[i], 1e-6);
  EXPECT_EQ(run_machine(s, balanced(4, 0), options).makespan, run.makespan);
  EXPECT_NE(run_machine(s, balanced(4, 0), {.jitter = 0.3, .seed = 8}).makespan, run.makespan);
}

// -- the step's time ----------------------------------------------------------------------

TEST(Machine, AStepIsThePeriodOfTheSteadyState) {
  for (const auto& replicas : {std::vector<int>{1, 1, 1}, {3, 1}, {2, 3}, {4, 6, 1}, {1, 2}}) {
    machine m = uniform_machine(replicas, {});
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      m.stages[i].forward_seconds = {1.0 * replicas[i]};
      m.stages[i].backward_seconds = {2.0 * replicas[i]};
    }
    auto r = request("pipedream", replicas, 1, 1, "full");
    r.minibatches = steady_minibatches(resolve_schedule(r));
    EXPECT_NEAR(run_machine(resolve_schedule(r), m).step_seconds, 3, 1e-9)
        << replicas[0] << " stages " << replicas.size();
  }
}

TEST(Machine, AStepIsNoShorterThanItsBusiestDevice) {
  // More in flight than the pipeline needs: the first stage is ahead of the slow last one for a while.
  auto r = request("pipedream", {1, 2, 1}, 1, 44, "9,3,1");
  auto m = uniform_machine({1, 2, 1}, {}, flat(4, 1));
  const double forward[] = {0.040, 0.080, 0.046};
  for (std::size_t i = 0; i < 3; ++i) {
    m.stages[i].forward_seconds = {forward[i]};
    m.stages[i].backward_seconds = {2 * forward[i]};
  }
  m.stages[0].output_bytes = {0.032};
  m.stages[1].output_bytes = {0.002};
  m.stages[1].all_reduce_bytes = 0.004;
  EXPECT_NEAR(run_machine(resolve_schedule(r), m).step_seconds, 0.138, 1e-9);
}

TEST(Machine, AStepOfAFlushIsItsWholeTime) {
  auto r = request("1f1b", ones(3), 5, 1);
  r.minibatches = steady_minibatches(resolve_schedule(r));
  EXPECT_DOUBLE_EQ(run_machine(resolve_schedule(r), balanced(3, 0)).step_seconds, (5 + 2) * 3);
  r = request("2bw", ones(3), 4, 1);
  r.minibatches = steady_minibatches(resolve_schedule(r));
  EXPECT_DOUBLE_EQ(run_machine(resolve_schedule(r), balanced(3, 0)).step_seconds, 4 * 3);
}

TEST(Machine, ThroughputFollowsTheSlowestStage) {
  auto m = balanced(3, 0);
  m.stages[1].forward_seconds = {2};
  m.stages[1].backward_seconds = {5};
  auto r = request("pipedream", ones(3), 1, 1, "full");
  r.minibatches = steady_minibatches(resolve_schedule(r));
  EXPECT_DOUBLE_EQ(run_machine(resolve_schedule(r), m).step_seconds, 7);
}

// -- refusals --------------------------------------------------------------------------------

TEST(Machine, NumbersThatMakeNoSenseAreNamed) {
  const auto s = resolve_schedule(request("pipedream", {2, 1}, 1, 4));
  const auto good = uniform_machine({2, 1}, {}, flat(3, 1e9));
  const auto refusal = [&](auto edit) {
    auto m = good;
    machine_options options;
    edit(m, options);
    return refusal_of([&] { run_machine(s, m, options); });
  };
  EXPECT_EQ(refusal([](auto&, auto&) {}), "");
  EXPECT_EQ(refusal([](auto& m, auto&) { m.stages.pop_back(); }), "the machine has 1 stages, wanted 2");
  EXPECT_EQ(refusal([](auto& m, auto&) { m.stages[0].devices = {0}; }),
            "stage 0 has 1 devices, wanted 2, one for each replica");
  EXPECT_EQ(refusal([](auto& m, auto&) { m.stages[1].devices = {3}; }), "a device of stage 1 is 3, wanted 0 to 2");
  EXPECT_EQ(refusal([](auto& m, auto&) {
              m.stages[1].forward_seconds = {1, 2};
            }),
            "forward_seconds of stage 1 has 2 values, wanted one or one for each of 1 micro-batches");
  EXPECT_EQ(refusal([](auto& m, auto&) { m.stages[0].kept_bytes = {-1}; }),
            "kept_bytes of stage 0 is -1.000000, wanted a finite number of at least 0");
  EXPECT_EQ(refusal([](auto& m, auto&) { m.links[0].group = 0; }), "group of level 0 is 0, wanted at least 1");
  EXPECT_NE(refusal([](auto& m, auto&) { m.links[0].latency_s = std::numeric_limits<double>::infinity(); }), "");
  EXPECT_NE(refusal([](auto& m, auto&) { m.links.assign(3, {.group = 1 << 20}); }), "");
  EXPECT_NE(refusal([](auto&, auto& o) { o.jitter = std::numeric_limits<double>::quiet_NaN(); }), "");
  EXPECT_EQ(refusal([](auto&, auto& o) {
              o.stragglers = {{7, 2}};
            }),
            "a straggler is device 7, wanted a device of some stage");
  EXPECT_EQ(refusal([](auto&, auto& o) {
              o.stragglers = {{1, 0}};
            }),
            "the factor of straggler device 1 is 0.000000, wanted a finite number above 0");
}

TEST(Machine, WhatCannotRunIsRefused) {
  auto s = resolve_schedule(request("pipedream", {1, 1}, 1, 2));
  s.stages[0].readable_versions = 1;
  EXPECT_THROW(run_machine(s, balanced(2, 0)), std::logic_error);
}

TEST(Machine, NothingTakesNoTime) {
  const auto run = run_machine(resolve_schedule(request("pipedream", {1, 1}, 1, 0)), balanced(2, 1));
  EXPECT_EQ(run.makespan, 0);
  EXPECT_EQ(run.step_seconds, 0);
  EXPECT_TRUE(run.spans.empty());
}

} // namespace
} // namespace penstock::planner::testing
