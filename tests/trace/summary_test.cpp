// Shares, staleness, edges and sections of runs whose numbers are known by hand.
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace penstock::actors {
namespace {

using testing::HasSubstr;
using testing::Not;

trace_file file_of(const synthetic_run& run) {
  return {run.header, run.records, {}};
}

TEST(Summary, BalancedPipedreamIsAlwaysBusyInSteadyState) {
  const auto s = summarize(file_of(make_run({.name = "pipedream", .replicas = {1, 1, 1}}, {40, 40})));
  EXPECT_TRUE(s.is_steady);
  EXPECT_EQ(s.sections, 2);
  for (const auto& stage : s.stages) {
    EXPECT_GT(stage.busy(), 0.99);
    ASSERT_TRUE(stage.ideal_bubble);
    EXPECT_NEAR(stage.bubble(), *stage.ideal_bubble, 0.01);
    EXPECT_NEAR(stage.forward_time.median, 1e-6, 1e-12);
    EXPECT_NEAR(stage.backward_time.median, 2e-6, 1e-12);
    EXPECT_NEAR(stage.update_time.median, 1e-7, 1e-12);
    EXPECT_NEAR(stage.forward / stage.backward, 0.5, 0.02);
  }
  EXPECT_NEAR(s.step.minibatches_per_second(), 1 / 3.1e-6, 0.03 / 3.1e-6);
}

TEST(Summary, GpipeShowsItsBubble) {
  // Per minibatch a stage works M (F + B) of (M + n - 1) (F + B) [GPipe 2.3], the update apart.
  const auto s = summarize(file_of(make_run({.name = "gpipe", .replicas = {1, 1}, .microbatches = 4}, {60})));
  for (const auto& stage : s.stages) {
    EXPECT_NEAR(stage.bubble(), 1.0 / 5, 0.02);
    EXPECT_NEAR(*stage.ideal_bubble, stage.bubble(), 0.01);
  }
}

TEST(Summary, ASplitBackwardCountsWholeAndTellsItsWeightsPart) {
  const auto file = file_of(make_run({.name = "zb-h1", .replicas = {1, 1}, .microbatches = 4}, {60}));
  const auto s = summarize(file);
  for (const auto& stage : s.stages) {
    // F = I = W: (n - 1) F of M 3 F + (n - 1) F, the update apart.
    EXPECT_NEAR(stage.bubble(), 1.0 / 13, 0.02);
    EXPECT_NEAR(*stage.ideal_bubble, stage.bubble(), 0.01);
    EXPECT_NEAR(stage.backward_time.median, 2e-6, 1e-12);
    EXPECT_NEAR(stage.forward / stage.backward, 0.5, 0.02);
  }
  EXPECT_EQ(s.stages[0].weight_time.median, 0) << "the first stage's backward is whole";
  EXPECT_NEAR(s.stages[1].weight_time.median, 1e-6, 1e-12);
  EXPECT_THAT(to_text(s, file), HasSubstr("of it weights ms"));
  const auto whole = file_of(make_run({.name = "1f1b", .replicas = {1, 1}, .microbatches = 4}, {60}));
  EXPECT_THAT(to_text(summarize(whole), whole), Not(HasSubstr("of it weights ms")));
}

TEST(Summary, ARunTooShortToBeSteadyIsTakenWhole) {
  const auto s = summarize(file_of(make_run({.name = "pipedream", .replicas = {1, 1, 1}}, {1})));
  EXPECT_FALSE(s.is_steady);
  // 3 x 1000 forward, 3 x 2000 backward, one update of 100 at the end.
  EXPECT_NEAR(s.run_seconds, 9.1e-6, 1e-12);
  EXPECT_NEAR(s.stages[0].busy(), 3.1 / 9.1, 1e-9);
  EXPECT_NEAR(*s.stages[0].ideal_bubble, 6.0 / 9.1, 1e-9);
}

TEST(Summary, StalenessIsThatOfTheSchedule) {
  const auto pipedream = summarize(file_of(make_run({.name = "pipedream", .replicas = {1, 1, 1}}, {20})));
  // Stage s misses K_s - 1 updates, the first ones fewer.
  EXPECT_EQ(pipedream.stages[0].staleness, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 1}, {2, 18}}));
  EXPECT_EQ(pipedream.stages[1].staleness, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 19}}));
  EXPECT_EQ(pipedream.stages[2].staleness, (std::map<std::int64_t, std::int64_t>{{0, 20}}));
  const auto flush = summarize(file_of(make_run({.name = "1f1b", .replicas = {1, 1}, .microbatches = 3}, {20})));
  for (const auto& stage : flush.stages)
    EXPECT_EQ(stage.staleness, (std::map<std::int64_t, std::int64_t>{{0, 60}}));
  const auto two = summarize(file_of(make_run({.name = "2bw", .replicas = {1, 1}, .microbatches = 2}, {20})));
  for (const auto& stage : two.stages)
    EXPECT_EQ(stage.staleness, (std::map<std::int64_t, std::int64_t>{{0, 2}, {1, 38}}));
}

TEST(Summary, CountsEdgesFromTheSends) {
  const auto s = summarize(file_of(make_run({.name = "pipedream", .replicas = {2, 1}}, {10})));
  ASSERT_EQ(s.edges.size(), 2U);
  EXPECT_EQ(s.edges.at({0, 1}).messages, 10);
  EXPECT_EQ(s.edges.at({1, 0}).bytes, 640);
}

TEST(Summary, SharesOfWaitsAndMailboxDepths) {
  synthetic_run run;
  run.header.plan.schedule = "pipedream";
  set_stages(run.header, {1}, {1});
  const auto add = [&](span_kind kind, wait_reason reason, std::int64_t begin, std::int64_t end, int depth) {
    trace_record r;
    r.kind = kind;
    r.reason = reason;
    r.stage = 0;
    r.minibatch = 0;
    r.microbatch = 0;
    r.stretch = 0;
    r.begin_ns = begin;
    r.end_ns = end;
    r.mailbox_depth = static_cast<std::int16_t>(depth);
    run.records.push_back(r);
  };
  add(span_kind::forward, wait_reason::none, 0, 20, 1);
  add(span_kind::wait, wait_reason::no_input, 20, 50, 2);
  add(span_kind::wait, wait_reason::no_credit, 50, 60, 3);
  add(span_kind::backward, wait_reason::none, 60, 90, 6);
  add(span_kind::update, wait_reason::none, 95, 100, -1);
  const auto s = summarize(file_of(run));
  const auto& stage = s.stages[0];
  EXPECT_NEAR(stage.busy(), 0.55, 1e-9);
  EXPECT_NEAR(stage.waits[static_cast<std::size_t>(wait_reason::no_input)], 0.3, 1e-9);
  EXPECT_NEAR(stage.waits[static_cast<std::size_t>(wait_reason::no_credit)], 0.1, 1e-9);
  EXPECT_NEAR(stage.other(), 0.05, 1e-9);
  EXPECT_NEAR(stage.depth_mean, 3, 1e-9);
  EXPECT_EQ(stage.depth_p99, 6);
  EXPECT_EQ(stage.depth_max, 6);
}

TEST(Summary, SharesOfOneReplicaAddToOneWhateverOverlaps) {
  std::mt19937_64 random(7);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    synthetic_run run;
    run.header.plan.schedule = "pipedream";
    set_stages(run.header, {2, 1}, {2, 1});
    for (auto count = between(1, 60); count > 0; --count) {
      trace_record r;
      r.kind = static_cast<span_kind>(between(0, span_kinds - 1));
      r.reason = static_cast<wait_reason>(between(0, wait_reasons - 1));
      r.stage = static_cast<std::int16_t>(between(-1, 1));
      r.replica = static_cast<std::int16_t>(r.stage == 0 ? between(0, 1) : 0);
      r.minibatch = between(0, 5);
      r.microbatch = 0;
      r.stretch = static_cast<std::int32_t>(between(0, 1));
      r.begin_ns = between(0, 1000);
      r.end_ns = r.begin_ns + between(0, 300);
      run.records.push_back(r);
    }
    const auto s = summarize(file_of(run));
    for (const auto& stage : s.stages) {
      auto sum = stage.busy() + stage.evaluate + stage.all_reduce;
      for (const double share : stage.waits)
        sum += share;
      ASSERT_LE(sum, 1 + 1e-9) << "round " << round;
      ASSERT_NEAR(sum + stage.other(), 1, s.steady_seconds > 0 ? 1e-9 : 1);
    }
    for (const auto& worker : s.workers)
      ASSERT_LE(worker.busy, 1 + 1e-9) << "round " << round;
  }
}

TEST(Summary, AnUpdateBesideTheWaitForItsVersionIsAnUpdate) {
  synthetic_run run;
  run.header.plan.schedule = "pipedream";
  set_stages(run.header, {1}, {1});
  const auto add = [&](span_kind kind, std::int64_t begin, std::int64_t end) {
    trace_record r;
    r.kind = kind;
    if (kind == span_kind::wait) r.reason = wait_reason::version_not_ready;
    r.stage = 0;
    r.stretch = 0;
    r.minibatch = 0;
    r.microbatch = 0;
    r.begin_ns = begin;
    r.end_ns = end;
    run.records.push_back(r);
  };
  add(span_kind::forward, 0, 20);
  add(span_kind::backward, 20, 50);
  add(span_kind::wait, 50, 100);
  add(span_kind::update, 60, 100);
  const auto s = summarize(file_of(run));
  EXPECT_NEAR(s.stages[0].update, 0.4, 1e-9);
  EXPECT_NEAR(s.stages[0].waits[static_cast<std::size_t>(wait_reason::version_not_ready)], 0.1, 1e-9);
  EXPECT_NEAR(s.stages[0].bubble(), 0.1, 1e-9);
}

TEST(Summary, TheSourceSaysWhatItAdmittedAndWaitedFor) {
  auto run = make_run({.name = "pipedream", .replicas = {1, 1}}, {5});
  const auto add = [&](span_kind kind, wait_reason why, std::int64_t begin, std::int64_t end) {
    trace_record r;
    r.kind = kind;
    r.reason = why;
    r.minibatch = 0;
    r.microbatch = 0;
    r.stretch = 0;
    r.peer = kind == span_kind::send ? 0 : -1;
    r.begin_ns = begin;
    r.end_ns = end;
    run.records.push_back(r);
  };
  add(span_kind::wait, wait_reason::no_input, 0, 2'000'000'000);
  add(span_kind::send, wait_reason::none, 2'000'000'000, 2'000'000'000);
  add(span_kind::wait, wait_reason::no_credit, 2'000'000'000, 5'000'000'000);
  const auto file = file_of(run);
  EXPECT_THAT(
      to_text(summarize(file), file),
      HasSubstr("source: 1 micro-batches admitted, waited 3.000 s for credit (the pipeline was full) and 2.000 s "
                "for data\n"));
}

TEST(Steps, AreCountedFromTheFirstThatFoundThePipelineFull) {
  synthetic_run run;
  run.header.plan.schedule = "pipedream";
  set_stages(run.header, {1, 1}, {2, 1});
  // The losses of each stretch come after 5, 1, 1, 1, 7 us: two minibatches fill it, so the intervals are 1 and 7 us.
  for (const std::int32_t stretch : {0, 1}) {
    std::int64_t now = 100'000 * (stretch + 1), minibatch = 10 * stretch;
    for (const std::int64_t step : {5'000, 1'000, 1'000, 1'000, 7'000}) {
      trace_record r;
      r.kind = span_kind::forward;
      r.stage = 1;
      r.stretch = stretch;
      r.minibatch = minibatch++;
      r.microbatch = 0;
      r.begin_ns = now;
      r.end_ns = now += step;
      run.records.push_back(r);
    }
  }
  const auto steps = step_time_of(run.header, run.records);
  EXPECT_EQ(steps.steps, 4);
  EXPECT_EQ(steps.minibatches, 10);
  EXPECT_NEAR(steps.mean, 4e-6, 1e-12);
  EXPECT_NEAR(steps.median, 4e-6, 1e-12);
}

TEST(Summary, AllReducesBehindBackwardsAreCountedAsHidden) {
  synthetic_run run;
  run.header.plan.schedule = "data-parallel";
  set_stages(run.header, {1}, {1});
  const auto add = [&](span_kind kind, std::int64_t begin, std::int64_t end) {
    trace_record r;
    r.kind = kind;
    r.stage = 0;
    r.stretch = 0;
    r.minibatch = 0;
    r.microbatch = 0;
    r.begin_ns = begin;
    r.end_ns = end;
    run.records.push_back(r);
  };
  add(span_kind::forward, 0, 20);
  add(span_kind::backward, 20, 80);
  add(span_kind::all_reduce, 40, 70); // two buckets that overlap, and one that ends late
  add(span_kind::all_reduce, 60, 90);
  add(span_kind::all_reduce, 80, 95);
  add(span_kind::update, 95, 100);
  const auto s = summarize(file_of(run));
  EXPECT_NEAR(s.stages[0].all_reduce_seconds, 55e-9, 1e-15);
  EXPECT_NEAR(s.stages[0].all_reduce_hidden, 40.0 / 55, 1e-9);
  EXPECT_NEAR(s.stages[0].all_reduce, 0.15, 1e-9);
  EXPECT_NEAR(s.stages[0].other(), 0, 1e-9);
  EXPECT_THAT(to_text(s, file_of(run)), HasSubstr("all-reduce of stage 0: 0.000 s, 72.7% of it behind backwards\n"));
}

TEST(Summary, TextAndJsonSayTheSame) {
  const auto file = file_of(make_run({.name = "pipedream", .replicas = {2, 1}}, {30}));
  const auto s = summarize(file);
  const auto text = to_text(s, file);
  for (const char* part :
       {"synthetic, schedule pipedream, 2 stages", "30 minibatches", "in steady state; median", "no input", "no credit",
        "version not ready", "ideal", "layer1", "stage 0 -> stage 1", "0: 30"})
    EXPECT_THAT(text, HasSubstr(part));
  const auto json = nlohmann::json::parse(to_json(s, file));
  EXPECT_EQ(json.at("stages").size(), 2U);
  EXPECT_DOUBLE_EQ(json.at("stages")[1].at("busy"), s.stages[1].busy());
  EXPECT_EQ(json.at("stages")[1].at("staleness").at("0"), 30);
  EXPECT_EQ(json.at("edges")[0].at("messages"), 30);
  EXPECT_THAT(text, HasSubstr("critical path: "));
  EXPECT_THAT(text, Not(HasSubstr("slowest link"))) << "its messages take no time";
  EXPECT_EQ(json.at("links").size(), 2U);
  EXPECT_EQ(json.at("links")[0].at("messages"), 30);
  EXPECT_EQ(json.at("workers").size(), 3U);
  EXPECT_EQ(json.at("critical_path")[0].at("part"), name_of(s.critical_path[0]));
  EXPECT_EQ(json.at("ranks"), 0);
}

TEST(Summary, AScheduleWithoutAnIdealIsShownWithoutOne) {
  auto run = make_run({.name = "pipedream", .replicas = {1, 1}}, {5});
  run.header.plan.schedule = "of tomorrow";
  const auto file = file_of(run);
  EXPECT_FALSE(summarize(file).stages[0].ideal_bubble);
  EXPECT_THAT(to_text(summarize(file), file), HasSubstr(" -\n"));
}

TEST(Summary, NothingRecordedIsNoFault) {
  synthetic_run run = make_run({.name = "pipedream", .replicas = {1, 1}}, {5});
  run.records.clear();
  const auto file = file_of(run);
  EXPECT_THAT(to_text(summarize(file), file), HasSubstr("0.000 s of training"));
}

} // namespace
} // namespace penstock::actors
