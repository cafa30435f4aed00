// The path of runs whose bottleneck is known.
#include "tests/trace/split_run.hpp"
#include "tools/trace/critical_path.hpp"
#include "tools/trace/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace penstock::actors {
namespace {

using what = path_share::what;

double share_of(const std::vector<path_share>& path, what kind, int stage) {
  double sum = 0;
  for (const auto& part : path)
    if (part.kind == kind && part.stage == stage) sum += part.share;
  return sum;
}

double sum_of(const std::vector<path_share>& path) {
  return std::accumulate(path.begin(), path.end(), 0.0, [](double sum, const auto& part) { return sum + part.share; });
}

std::vector<path_share> path_of(const trace_file& file) {
  return summarize(file).critical_path;
}

TEST(CriticalPath, OneMinibatchAtATimeIsASumOfItsParts) {
  const auto file = simulate_ranks({.name = "model-parallel", .replicas = {1, 1}, .minibatches = 12}, 0);
  const auto path = path_of(file);
  EXPECT_NEAR(sum_of(path), 1, 1e-9);
  // Of each minibatch: forwards and backwards 3 ms a stage, two messages of 0.5 ms and the first stage's update.
  for (const int stage : {0, 1})
    EXPECT_NEAR(share_of(path, what::compute, stage), 3 / 7.1, 0.02);
  for (const int stage : {0, 1})
    EXPECT_NEAR(share_of(path, what::link, stage), 0.5 / 7.1, 0.02);
  EXPECT_NEAR(share_of(path, what::update, 0), 0.1 / 7.1, 0.01);
}

TEST(CriticalPath, AStageTwiceAsSlowIsThePath) {
  auto run = make_run({.name = "pipedream", .replicas = {1, 1, 1}}, {60});
  // In a run of equal stages the path is compute alone, whichever stages it goes through.
  const trace_file file{run.header, run.records, {}};
  const auto path = path_of(file);
  EXPECT_NEAR(sum_of(path), 1, 1e-9);
  double compute = 0;
  for (const int stage : {0, 1, 2})
    compute += share_of(path, what::compute, stage) + share_of(path, what::update, stage);
  EXPECT_GT(compute, 0.95);
  planner::schedule_request request{.name = "pipedream", .replicas = {1, 1, 1}, .minibatches = 60};
  auto slow = simulate_ranks(request, 0, 0, 1, {1, 4, 1});
  EXPECT_GT(share_of(path_of(slow), what::compute, 1), 0.9);
  EXPECT_EQ(path_of(slow).front().stage, 1);
}

TEST(CriticalPath, AnAllReduceThatNothingHidesIsOnIt) {
  const auto file = simulate_ranks({.name = "data-parallel", .replicas = {3}, .minibatches = 15}, 0);
  const auto path = path_of(file);
  EXPECT_NEAR(sum_of(path), 1, 1e-9);
  EXPECT_GT(share_of(path, what::all_reduce, 0), 0.05);
  EXPECT_GT(share_of(path, what::compute, 0), 0.4);
}

TEST(CriticalPath, WaitingForTheSourceIsNamed) {
  synthetic_run run;
  run.header.plan.schedule = "pipedream";
  set_stages(run.header, {1}, {1});
  const auto add = [&](span_kind kind, std::int64_t minibatch, std::int64_t begin, std::int64_t end) {
    trace_record r;
    r.kind = kind;
    r.stage = 0;
    r.stretch = 0;
    r.minibatch = minibatch;
    r.microbatch = kind == span_kind::update ? -1 : 0;
    r.version_read = minibatch;
    r.version_written = kind == span_kind::update ? minibatch + 1 : -1;
    r.begin_ns = begin;
    r.end_ns = end;
    run.records.push_back(r);
  };
  for (std::int64_t i = 0; i < 20; ++i) { // 30 of compute, then 60 until the next samples, 10 until it begins
    add(span_kind::receive, i, 100 * i - 10 + 1000, 100 * i - 10 + 1000);
    add(span_kind::forward, i, 100 * i + 1000, 100 * i + 1010);
    add(span_kind::backward, i, 100 * i + 1010, 100 * i + 1030);
    add(span_kind::update, i, 100 * i + 1030, 100 * i + 1030);
  }
  const auto path = path_of({run.header, run.records, {}});
  EXPECT_NEAR(share_of(path, what::input, 0), 0.6, 0.02);
  EXPECT_NEAR(share_of(path, what::compute, 0), 0.3, 0.02);
  EXPECT_NEAR(share_of(path, what::handover, 0), 0.1, 0.02);
}

TEST(CriticalPath, AnyRecordsHaveAPathThatEnds) {
  // Whatever a file says, each step goes back.
  const auto good =
      simulate_ranks({.name = "1f1b", .replicas = {2, 1}, .microbatches = 3, .minibatches = 6}, 1000, 0.3);
  for (std::size_t i = 0; i < good.records.size(); ++i) {
    auto file = good;
    file.records[i].begin_ns = static_cast<std::int64_t>(i % 7) * 1'000'000;
    file.records[i].end_ns = file.records[i].begin_ns + static_cast<std::int64_t>(i % 3) * 40'000'000;
    const auto path = path_of(file);
    if (!path.empty()) {
      EXPECT_NEAR(sum_of(path), 1, 1e-9);
    }
  }
}

} // namespace
} // namespace penstock::actors
