// Simulated runs as trace files: every tool reads them like real ones.
#include "actors/trace/reader.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/command.hpp"
#include "tools/trace/history.hpp"
#include "tools/trace/lifeline.hpp"
#include "tools/trace/simulated_trace.hpp"
#include "tools/trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace penstock::actors {
namespace {

using ::testing::HasSubstr;

planner::machine machine_for(const std::vector<int>& replicas, bool by_reference) {
  planner::machine m;
  int device = 0;
  for (const auto count : replicas) {
    planner::machine_stage stage{.forward_seconds = {1e-3 * count},
                                 .backward_seconds = {2e-3 * count},
                                 .update_seconds = 2e-4,
                                 .output_bytes = {1000},
                                 .all_reduce_bytes = 3000};
    for (int r = 0; r < count; ++r)
      stage.devices.push_back(device++);
    m.stages.push_back(stage);
  }
  m.links = {{.group = device, .bytes_per_second = 1e6, .latency_s = 1e-5, .by_reference = by_reference}};
  return m;
}

struct simulated {
  planner::schedule schedule;
  planner::machine_run run;
  trace_file file;
};

simulated simulate_to_file(const planner::schedule_request& request, const planner::machine& m, double jitter = 0) {
  simulated s;
  s.schedule = planner::resolve_schedule(request);
  s.run = planner::run_machine(s.schedule, m, {.jitter = jitter});
  const scratch_file file("simulated.pftrace");
  write_simulated_trace(file.path(), s.schedule, s.run, {.model = "toy"});
  s.file = read_trace(file.path());
  return s;
}

TEST(SimulatedTrace, TheHistoryHoldsForEveryScheduleAndReplicas) {
  for (const auto& name : planner::schedule_names())
    for (const auto& replicas : {std::vector<int>{1}, {2}, {1, 1, 1}, {2, 2}, {3, 1}, {2, 3}, {1, 2, 1}, {4, 2, 1, 1}})
      for (const bool by_reference : {false, true}) {
        if (name == "data-parallel" && replicas.size() > 1) continue;
        const bool are_equal =
            std::adjacent_find(replicas.begin(), replicas.end(), std::not_equal_to<>()) == replicas.end();
        if ((name == "pipedream-vertical-sync" || name == "interleaved") && !are_equal) continue;
        planner::schedule_request request{.name = name, .replicas = replicas, .minibatches = 13};
        if (name == "1f1b" || name == "gpipe") request.microbatches = 5;
        if (name == "pipedream" && by_reference) request.update_lag = {1};
        const auto s = simulate_to_file(request, machine_for(replicas, by_reference), 0.3);
        SCOPED_TRACE(name + (by_reference ? " in one process, replicas " : ", replicas ") +
                     ::testing::PrintToString(replicas));
        EXPECT_TRUE(s.file.complete()) << s.file.missing;
        const auto verdict = check_history(s.file);
        EXPECT_EQ(verdict.found, history_verdict::outcome::holds) << verdict.line;
        const auto summary = summarize(s.file);
        ASSERT_EQ(summary.stages.size(), replicas.size());
        for (const auto& stage : summary.stages) {
          double known = stage.busy() + stage.all_reduce;
          for (const auto share : stage.waits)
            known += share;
          EXPECT_LE(known, 1 + 1e-6); // nothing is counted twice
          if (summary.is_steady && replicas == std::vector<int>(replicas.size(), 1)) {
            EXPECT_GE(known, 1 - 1e-6); // and all time has a name
          }
        }
      }
}

TEST(SimulatedTrace, ChunksOfAWorkerShareItsTime) {
  for (const int positions : {1, 2, 3})
    for (const int replicas : {1, 2})
      for (const int chunks : {2, 3}) {
        planner::schedule_request request{.name = "interleaved",
                                          .replicas = std::vector<int>(static_cast<std::size_t>(positions), replicas),
                                          .microbatches = 4,
                                          .minibatches = 9,
                                          .chunks = chunks};
        auto m = machine_for(request.replicas, replicas == 1);
        const auto workers = m.stages;
        for (int chunk = 1; chunk < chunks; ++chunk)
          m.stages.insert(m.stages.end(), workers.begin(), workers.end());
        SCOPED_TRACE(planner::describe_place(positions, replicas) + " " + std::to_string(chunks));
        const auto s = simulate_to_file(request, m, 0.3);
        EXPECT_EQ(s.file.header.plan.chunks, chunks);
        const auto verdict = check_history(s.file);
        EXPECT_EQ(verdict.found, history_verdict::outcome::holds) << verdict.line;
        const auto summary = summarize(s.file);
        ASSERT_EQ(summary.workers.size(), static_cast<std::size_t>(positions * replicas));
        for (std::size_t stage = 0; stage < summary.stages.size(); ++stage) {
          const auto& shares = summary.stages[stage];
          EXPECT_NEAR(shares.bubble(), summary.stages[stage % static_cast<std::size_t>(positions)].bubble(), 1e-9)
              << "the worker's";
          EXPECT_LE(shares.known() + shares.known_elsewhere, 1 + 1e-6);
          EXPECT_LT(shares.busy(), 1.01 - shares.busy_elsewhere);
          EXPECT_TRUE(shares.ideal_bubble.has_value());
        }
        EXPECT_THAT(to_text(summary, s.file), HasSubstr("chunks a worker"));
        EXPECT_THAT(timeline(s.file, 0, 2, 80), HasSubstr("worker 0"));
      }
}

TEST(SimulatedTrace, SpansAreTheRuns) {
  const auto s =
      simulate_to_file({.name = "pipedream", .replicas = {2, 1}, .minibatches = 10}, machine_for({2, 1}, false));
  std::map<span_kind, std::size_t> count;
  std::int64_t end = 0;
  for (const auto& r : s.file.records) {
    ++count[r.kind];
    end = std::max(end, r.end_ns);
  }
  EXPECT_EQ(count[span_kind::forward], 20U);
  EXPECT_EQ(count[span_kind::backward], 20U);
  EXPECT_EQ(count[span_kind::update], 2U * 5 + 10);
  EXPECT_EQ(count[span_kind::send], 20U);
  EXPECT_EQ(count[span_kind::receive], 20U);
  EXPECT_GT(count[span_kind::all_reduce], 0U);
  EXPECT_NEAR(static_cast<double>(end) * 1e-9, s.run.makespan, 1e-9);
  EXPECT_EQ(s.file.header.model, "toy");
  EXPECT_EQ(s.file.header.minibatches, 10);
  const auto summary = summarize(s.file);
  EXPECT_NEAR(summary.stages[0].forward_time.mean, 2e-3, 1e-9);
  EXPECT_NEAR(summary.stages[1].backward_time.mean, 2e-3, 1e-9);
  EXPECT_EQ((summary.edges.at({0, 1}).bytes), 10'000);
}

TEST(SimulatedTrace, AnIdleReplicaSaysWhatItWaitsFor) {
  // Flushes of one micro-batch on two stages: each waits for the other and, after its backward, for its slow update.
  auto m = machine_for({1, 1}, false);
  for (auto& stage : m.stages)
    stage.update_seconds = 5e-3;
  const auto s = simulate_to_file({.name = "1f1b", .replicas = {1, 1}, .microbatches = 1, .minibatches = 6}, m);
  const auto waited = [&](int stage, wait_reason reason) {
    std::int64_t sum = 0;
    for (const auto& r : s.file.records)
      if (r.kind == span_kind::wait && r.stage == stage && r.reason == reason) sum += r.end_ns - r.begin_ns;
    return sum;
  };
  EXPECT_EQ(waited(0, wait_reason::version_not_ready), 0); // it updates itself at once
  EXPECT_GT(waited(0, wait_reason::no_input), 0);
  EXPECT_GT(waited(1, wait_reason::no_input), 0);
}

TEST(SimulatedTrace, AReplicaWaitsForTheUpdateOfTheFirstInOneProcess) {
  const auto s = simulate_to_file({.name = "data-parallel", .replicas = {2}, .minibatches = 8}, machine_for({2}, true));
  std::int64_t waits = 0;
  for (const auto& r : s.file.records)
    if (r.kind == span_kind::wait) {
      EXPECT_EQ(r.reason, wait_reason::all_reduce);
      EXPECT_EQ(r.replica, 1);
      waits += r.end_ns - r.begin_ns;
    }
  EXPECT_EQ(waits, 7 * (3'000'000 + 200'000)); // the sum of 3000 bytes at 1 MB/s and the update
}

TEST(SimulatedTrace, TheCommandsReadIt) {
  const auto schedule = planner::resolve_schedule({.name = "pipedream", .replicas = {2, 1}, .minibatches = 12});
  const auto run = planner::run_machine(schedule, machine_for({2, 1}, false));
  const scratch_file file("simulated.pftrace");
  write_simulated_trace(file.path(), schedule, run, {.model = "toy", .stage_layers = {"a .. b", "c"}});
  const auto path = file.path().string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"summary", path}, {"timeline", path}, {"lifeline", path, "5"}, {"check", path}}) {
    std::ostringstream out, err;
    EXPECT_EQ(trace_command(words, out, err), 0) << words[0];
    EXPECT_EQ(err.str(), "");
    EXPECT_NE(out.str(), "");
  }
}

TEST(SimulatedTrace, TheBytesAreTheSameTwice) {
  const auto schedule = planner::resolve_schedule({.name = "pipedream", .replicas = {2, 1}, .minibatches = 12});
  const auto run = planner::run_machine(schedule, machine_for({2, 1}, false), {.jitter = 0.5, .seed = 3});
  EXPECT_EQ(encode_simulated_trace(schedule, run, {}), encode_simulated_trace(schedule, run, {}));
}

TEST(SimulatedTrace, WhatCannotBeWrittenIsNamed) {
  const auto schedule = planner::resolve_schedule({.name = "pipedream", .replicas = {1, 1}, .minibatches = 3});
  const auto refusal = [&](const planner::machine_run& run, const simulated_run_names& names, const char* file) {
    try {
      write_simulated_trace(file, schedule, run, names);
    } catch (const error& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  auto run = planner::run_machine(schedule, machine_for({1, 1}, false), {.keep_spans = false});
  EXPECT_THAT(refusal(run, {}, "/nowhere/x"), HasSubstr("without spans"));
  run = planner::run_machine(schedule, machine_for({1, 1}, false));
  EXPECT_THAT(refusal(run, {.stage_layers = {"a"}}, "/nowhere/x"), HasSubstr("named for 1 stages, wanted 2"));
  EXPECT_THAT(refusal(run, {}, "/nowhere/x"), HasSubstr("/nowhere"));
  run.makespan = 1e12;
  EXPECT_THAT(refusal(run, {}, "/nowhere/x"), HasSubstr("at most 9e9"));
}

} // namespace
} // namespace penstock::actors
