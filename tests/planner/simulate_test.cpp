// The simulator against the closed forms of the pipeline literature.
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock::planner::testing {
namespace {

std::vector<stage_times> balanced(int stages, double forward, double backward, double latency = 0) {
  return std::vector<stage_times>(static_cast<std::size_t>(stages), {forward, backward, 0, latency, latency});
}

std::vector<int> straight(int stages) {
  return std::vector<int>(static_cast<std::size_t>(stages), 1);
}

/// Time per minibatch (or per micro-batch of one flush) once the pipeline is full.
double period(schedule_request r, const std::vector<stage_times>& times, int filled = 240) {
  const auto makespan = [&](int count) {
    if (r.name == "1f1b")
      r.microbatches = count;
    else
      r.minibatches = count;
    return simulate(resolve_schedule(r), times).makespan;
  };
  return (makespan(2 * filled) - makespan(filled)) / filled;
}

TEST(Simulate, FlushedSchedulesTakeTheClosedFormsTime) {
  for (const auto* name : {"1f1b", "gpipe"})
    for (int n = 1; n <= 6; ++n)
      for (int m = 1; m <= 9; ++m) {
        const auto run = simulate(resolve_schedule(request(name, straight(n), m, 1)), balanced(n, 1, 2));
        EXPECT_EQ(run.makespan, (m + n - 1) * 3) << name << " n " << n << " m " << m;
        EXPECT_NEAR(run.bubble(), (n - 1.0) / (m + n - 1), 1e-12);
      }
}

TEST(Simulate, ModelParallelTakesEveryStageInTurn) {
  EXPECT_EQ(simulate(resolve_schedule(request("model-parallel", straight(3), 4, 2)), balanced(3, 1, 2)).makespan, 72);
}

TEST(Simulate, PeakInFlightIsTheCredit) {
  const auto tight = simulate(resolve_schedule(request("1f1b", straight(4), 16, 1)), balanced(4, 1, 2));
  EXPECT_EQ(tight.peak_in_flight, (std::vector<std::int64_t>{4, 3, 2, 1}));
  const auto eager = simulate(resolve_schedule(request("1f1b", straight(4), 16, 1, "double")), balanced(4, 1, 2));
  EXPECT_EQ(eager.peak_in_flight, (std::vector<std::int64_t>{7, 5, 3, 1}));
  const auto gpipe = simulate(resolve_schedule(request("gpipe", straight(4), 16, 1)), balanced(4, 1, 2));
  EXPECT_EQ(gpipe.peak_in_flight, (std::vector<std::int64_t>{16, 16, 16, 16}));
}

TEST(Simulate, DoubledCreditsHideLinksUpToHalfAPeriod) {
  for (int n = 2; n <= 6; ++n)
    for (int m = 1; m <= 20; ++m)
      for (const auto link : {0.125, 0.25, 0.5, 1.0, 1.5}) {
        const auto s = resolve_schedule(request("1f1b", straight(n), m, 1, "double"));
        EXPECT_DOUBLE_EQ(simulate(s, balanced(n, 1, 2, link)).makespan, (m + n - 1) * 3 + 2 * (n - 1) * link)
            << "n " << n << " m " << m << " link " << link;
      }
}

TEST(Simulate, LinksBeyondHalfAPeriodShow) {
  const auto s = resolve_schedule(request("1f1b", straight(4), 64, 1, "double"));
  EXPECT_GT(simulate(s, balanced(4, 1, 2, 2)).makespan, (64 + 3) * 3 + 2 * 3 * 2 + 10);
}

TEST(Simulate, TightCreditsPayForLinksEveryPeriod) {
  for (int n = 2; n <= 8; ++n)
    EXPECT_NEAR(period(request("1f1b", straight(n), 1, 1), balanced(n, 1, 2, 0.25)), 3 + 2 * 0.25 * (n - 1) / n, 0.01);
}

struct sweep_point {
  double alpha;       // share of the doubling
  double exact_order; // efficiency with window 0
  double wide_window;
};

TEST(Simulate, PartialCreditsBuyPartialOverlap) {
  constexpr int n = 8;
  // With window 0 the strict alternation makes k stages whose credits fall by one run at F + B + 2 SR (k - 1) / k.
  for (const auto& point :
       {sweep_point{0, 3 / 3.4375, 0.873}, sweep_point{0.25, 3 / 3.375, 0.923}, sweep_point{0.5, 3 / 3.25, 0.952},
        sweep_point{0.75, 3 / 3.25, 0.980}, sweep_point{1, 1, 1}}) {
    auto r = request("1f1b", straight(n), 1, 1);
    r.in_flight.kind = in_flight_spec::mode::given;
    for (int i = 1; i <= n; ++i)
      r.in_flight.given.push_back(1 + (n - i) + static_cast<std::int64_t>(std::ceil(point.alpha * (n - i))));
    EXPECT_NEAR(3 / period(r, balanced(n, 1, 2, 0.25), 2000), point.exact_order, 0.0005) << "alpha " << point.alpha;
    r.window = 1000;
    EXPECT_NEAR(3 / period(r, balanced(n, 1, 2, 0.25), 2000), point.wide_window, 0.0005) << "alpha " << point.alpha;
  }
}

TEST(Simulate, PipedreamRunsAtFullSpeedOnStraightPipelines) {
  for (int n = 1; n <= 6; ++n)
    EXPECT_DOUBLE_EQ(period(request("pipedream", straight(n), 1, 1), balanced(n, 1, 2)), 3) << "n " << n;
}

TEST(Simulate, TightCreditsStarveAWideMiddleAndFullOnesDoNot) {
  const std::vector<stage_times> times{{1, 2}, {2, 4}, {1, 2}};
  EXPECT_NEAR(3 / period(request("pipedream", {1, 2, 1}, 1, 1, "tight"), times), 2.0 / 3, 0.01);
  EXPECT_NEAR(3 / period(request("pipedream", {1, 2, 1}, 1, 1, "full"), times), 1, 0.001);
}

TEST(Simulate, FullCreditsReachFullSpeedForAnyReplicas) {
  for (int a = 1; a <= 3; ++a)
    for (int b = 1; b <= 3; ++b)
      for (int c = 1; c <= 3; ++c) {
        std::vector<stage_times> times;
        for (const auto r : {a, b, c})
          times.push_back({1.0 * r, 2.0 * r});
        EXPECT_NEAR(period(request("pipedream", {a, b, c}, 1, 1, "full"), times), 3, 0.01) << a << b << c;
      }
}

TEST(Simulate, UpdatesTakeTimeOnTheReplica) {
  const std::vector<stage_times> times{{1, 2, 0.5}};
  const auto run = simulate(resolve_schedule(request("1f1b", {1}, 2, 3)), times);
  EXPECT_DOUBLE_EQ(run.makespan, 3 * (2 * 3 + 0.5));
  EXPECT_DOUBLE_EQ(run.busy[0], run.makespan);
  EXPECT_NEAR(run.bubble(), 0, 1e-12);
}

TEST(Simulate, AForwardWaitsForTheSlowestReplicasUpdate) {
  // Replica 0 has two micro-batches of minibatch 0, replica 1 has one; both start minibatch 1 together.
  const auto run = simulate(resolve_schedule(request("1f1b", {2}, 3, 2)), {{1, 2}});
  EXPECT_EQ(run.makespan, 12);
  for (const auto& span : run.spans)
    if (span.what.minibatch == 1) {
      EXPECT_GE(span.begin, 6);
    }
}

TEST(Simulate, SpansAreInOrderOfBegin) {
  const auto run = simulate(resolve_schedule(request("pipedream", {2, 1}, 1, 20)), balanced(2, 1, 2, 0.3));
  for (std::size_t i = 1; i < run.spans.size(); ++i)
    EXPECT_LE(run.spans[i - 1].begin, run.spans[i].begin);
}

TEST(Simulate, NothingTakesNoTime) {
  const auto run = simulate(resolve_schedule(request("pipedream", {1, 1}, 1, 0)), balanced(2, 1, 2));
  EXPECT_EQ(run.makespan, 0);
  EXPECT_EQ(run.bubble(), 0);
  EXPECT_TRUE(run.spans.empty());
}

TEST(Simulate, AWindowLetsABackwardPassAForwardThatWaits) {
  // Stage 0 is slow: stage 1's list says F1 before B0 (K = 2), but B0 needs nothing more once F0 is done.
  auto r = request("1f1b", {1, 1}, 2, 1, "2,2");
  const std::vector<stage_times> times{{10, 1}, {1, 1}};
  const auto begin_of_first_backward = [&] {
    for (const auto& span : simulate(resolve_schedule(r), times).spans)
      if (span.what.kind == action_kind::backward) return span.begin;
    return -1.0;
  };
  EXPECT_EQ(begin_of_first_backward(), 21);
  r.window = 1;
  EXPECT_EQ(begin_of_first_backward(), 11);
}

TEST(Simulate, RefusesBrokenTimes) {
  const auto s = resolve_schedule(request("pipedream", {1, 1}, 1, 2));
  const auto refusal = [&](const std::vector<stage_times>& times) { return refusal_of([&] { simulate(s, times); }); };
  EXPECT_EQ(refusal(balanced(3, 1, 2)), "times are given for 3 stages, wanted 2");
  EXPECT_EQ(refusal({{1, 2}, {-1, 2}}), "a time of stage 1 is -1.000000, wanted a finite number of at least 0");
  EXPECT_NE(refusal({{std::numeric_limits<double>::quiet_NaN(), 2}, {1, 2}}), "");
  EXPECT_NE(refusal({{1, 2, 0, std::numeric_limits<double>::infinity()}, {1, 2}}), "");
}

TEST(Simulate, RefusesWhatCannotRun) {
  auto s = resolve_schedule(request("pipedream", {1, 1}, 1, 2));
  s.stages[0].credit = 1;
  s.stages[1].credit = s.stages[1].readable_versions = 2; // which waits for a second minibatch that is never admitted
  EXPECT_THROW(simulate(s, balanced(2, 1, 2)), std::logic_error);
}

} // namespace
} // namespace penstock::planner::testing
