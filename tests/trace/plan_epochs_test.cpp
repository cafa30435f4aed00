// A run whose plan changed: written and read, judged, summed and drawn by the plan of each stretch.
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/command.hpp"
#include "tools/trace/diff.hpp"
#include "tools/trace/history.hpp"
#include "tools/trace/lifeline.hpp"
#include "tools/trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <sstream>

namespace penstock::actors {
namespace {

using planner::schedule_request;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string verdict(const synthetic_run& run) {
  auto records = run.records;
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return check_history(run.header, records).value_or("");
}

/// Two stages, then three, then two again with other replicas: minibatches 0 to 8, 9 to 15, 16 to 21.
synthetic_run changing_run() {
  return make_changing_run({{{.name = "pipedream", .replicas = {1, 1}}, {6, 3}},
                            {{.name = "pipedream", .replicas = {1, 1, 1}}, {7}},
                            {{.name = "pipedream", .replicas = {2, 1}}, {4, 2}}});
}

trace_file file_of(const synthetic_run& run) {
  return {run.header, run.records, {}};
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const error& refused) {
    return refused.what();
  }
  return "";
}

TEST(PlanEpochs, ARecordIsOfTheEpochOfItsStretch) {
  auto run = changing_run();
  trace_record r;
  r.stage = 0;
  for (const auto& [stretch, epoch] :
       std::vector<std::pair<int, std::size_t>>{{0, 0}, {1, 0}, {2, 1}, {3, 2}, {9, 2}}) {
    r.stretch = stretch;
    EXPECT_EQ(epoch_of(run.header, r), epoch) << stretch;
  }
  // Where evaluations are not told apart, the first plan that has such a stage says what it is.
  r.stretch = -4;
  EXPECT_EQ(epoch_of(run.header, r), 0U);
  r.stage = 2;
  EXPECT_EQ(epoch_of(run.header, r), 1U);
  run.header.changes[0].first_evaluation = -3;
  run.header.changes[1].first_evaluation = -3;
  for (const auto& [evaluation, epoch] : std::vector<std::pair<int, std::size_t>>{{-1, 0}, {-2, 0}, {-3, 2}, {-9, 2}}) {
    r.stretch = evaluation;
    EXPECT_EQ(epoch_of(run.header, r), epoch) << evaluation;
  }
}

TEST(PlanEpochs, EachHasTheHeaderOfARunOfItsOwn) {
  const auto run = changing_run();
  const epoch_headers headers(run.header);
  EXPECT_EQ(headers.at(0).minibatches, 9);
  EXPECT_EQ(headers.at(1).first_minibatch, 9);
  EXPECT_EQ(headers.at(1).minibatches, 16);
  EXPECT_EQ(headers.at(2).minibatches, 22);
  EXPECT_EQ(headers.at(1).plan, run.header.changes[0].plan);
  EXPECT_TRUE(headers.at(2).changes.empty());
  EXPECT_EQ(name_of_epoch(1, headers.at(1)), "plan epoch 1, minibatches 9 to 15");
}

TEST(PlanEpochs, ARunThatChangedIsReadBackAsItWas) {
  const auto run = changing_run();
  const scratch_file file("changes.pftrace");
  run.write(file.path());
  const auto read = read_trace(file.path());
  EXPECT_EQ(read.missing, "");
  EXPECT_EQ(read.header.plan, run.header.plan);
  EXPECT_EQ(read.header.changes, run.header.changes);
  EXPECT_EQ(read.records.size(), run.records.size());
  EXPECT_EQ(check_history(read).line,
            "22 minibatches, " + std::to_string(std::count_if(run.records.begin(), run.records.end(), is_training)) +
                " forwards, backwards and updates under 3 plans one after another: the "
                "history holds");
}

TEST(PlanEpochs, ARunWithoutChangesSaysNothingOfThem) {
  const auto run = make_run({.name = "pipedream", .replicas = {1, 1}}, {6});
  const scratch_file file("plain.pftrace");
  run.write(file.path());
  const auto bytes = file.bytes();
  EXPECT_EQ(bytes.find("changes"), std::string::npos);
  EXPECT_EQ(bytes.find("plan epoch"), std::string::npos);
}

TEST(PlanEpochs, AFileThatIsNeverClosedHasTheChangeToo) {
  auto run = changing_run();
  const scratch_file file("open.pftrace");
  {
    auto first = run.header;
    first.changes.clear();
    trace_recorder recorder(file.path(), first);
    recorder.change_plan(run.header.changes[0]);
    recorder.record(run.find(span_kind::forward, 2, 9));
  }
  const auto read = read_trace(file.path());
  EXPECT_EQ(read.missing, "the run did not close it");
  ASSERT_EQ(read.header.changes.size(), 1U);
  EXPECT_EQ(read.header.changes[0], run.header.changes[0]);
  ASSERT_EQ(read.records.size(), 1U);
  EXPECT_EQ(read.records[0].stage, 2);
}

TEST(PlanEpochs, TheRecorderRefusesPlansThatDoNotFollow) {
  const auto run = changing_run();
  const scratch_file file("refused.pftrace");
  auto first = run.header;
  first.changes.clear();
  trace_recorder recorder(file.path(), first);
  recorder.change_plan(run.header.changes[1]);
  EXPECT_EQ(refusal([&] { recorder.change_plan(run.header.changes[0]); }),
            "trace header: a plan whose first stretch is 2, wanted 3 or more");
  auto next = run.header.changes[1];
  next.first_minibatch = 15;
  EXPECT_EQ(refusal([&] { recorder.change_plan(next); }),
            "trace header: a plan whose first minibatch is 15, wanted 16 or more");
  next = run.header.changes[1];
  next.plan.stages.clear();
  EXPECT_EQ(refusal([&] { recorder.change_plan(next); }), "trace header: 0 stages, wanted 1 to 10000");
  recorder.close(22);
  EXPECT_EQ(read_trace(file.path()).header.changes.size(), 1U);
}

TEST(PlanEpochs, GoodRunsHoldWhateverThePlans) {
  EXPECT_EQ(verdict(changing_run()), "");
  EXPECT_EQ(verdict(make_changing_run({{{.name = "1f1b", .replicas = {1, 2}, .microbatches = 4}, {3}},
                                       {{.name = "gpipe", .replicas = {2, 1, 1}, .microbatches = 2}, {2, 2}},
                                       {{.name = "1f1b", .replicas = {1}, .microbatches = 3}, {4}}})),
            "");
  EXPECT_EQ(verdict(make_changing_run({{{.name = "pipedream-naive", .replicas = {1, 1, 1}}, {5}},
                                       {{.name = "pipedream", .replicas = {3, 1}}, {7, 4}}})),
            "");
}

TEST(PlanEpochs, AnEpochThatTrainedNothingHolds) {
  auto run = changing_run();
  auto twice = run.header.changes[0];
  run.header.changes.insert(run.header.changes.begin(), twice);
  EXPECT_EQ(verdict(run), "");
  auto last = run.header.changes.back();
  last.first_stretch = 5;
  last.first_minibatch = 22;
  run.header.changes.push_back(last);
  EXPECT_EQ(verdict(run), "");
  EXPECT_EQ(summarize(file_of(run)).epochs.size(), 3U);
}

TEST(PlanEpochs, FindsAVersionOfTheEpochBefore) {
  auto run = changing_run();
  run.find(span_kind::forward, 0, 9).version_read = 9;
  run.find(span_kind::backward, 0, 9).version_read = 9;
  EXPECT_EQ(verdict(run),
            "plan epoch 1, stretch 2: stage 0: forward of minibatch 9 read version 9, the schedule gives it 0");
  run = changing_run();
  auto& update = run.find(span_kind::update, 1, 9);
  update.version_read = 9;
  update.version_written = 10;
  EXPECT_EQ(verdict(run), "plan epoch 1, stretch 2: stage 1: update from version 9 to 10, wanted from 0 to 1");
}

TEST(PlanEpochs, FindsAStageOfAnotherPlan) {
  auto run = changing_run();
  auto& forward = run.find(span_kind::forward, 1, 17);
  forward.stage = 2;
  EXPECT_EQ(verdict(run), "plan epoch 2, stretch 3: stage 2: forward of minibatch 17, the plan has 2 stages");
  const scratch_file file("stage.pftrace");
  run.write(file.path()); // a stage that some plan has is recorded: it is for the check to say
  EXPECT_THAT(check_history(read_trace(file.path())).line, StartsWith("plan epoch 2, stretch 3: stage 2: "));
  run = changing_run();
  run.find(span_kind::forward, 0, 10).replica = 1;
  EXPECT_THAT(verdict(run), StartsWith("plan epoch 1, stretch 2: stage 0 replica 1: forward of minibatch 10, "));
  run = changing_run();
  run.find(span_kind::send, 1, 18).peer = 2;
  EXPECT_EQ(verdict(run), "plan epoch 2, stretch 3: stage 1: send of minibatch 18 with stage 2, the plan has 2 stages");
}

TEST(PlanEpochs, FindsAMinibatchLostAtTheChange) {
  auto run = changing_run();
  std::erase_if(run.records, [](const auto& r) { return r.minibatch == 9; });
  EXPECT_EQ(verdict(run), "plan epoch 1, stretch 2: no forward of minibatch 9 on any stage");
  run = changing_run();
  std::erase_if(run.records, [](const auto& r) { return r.minibatch == 8 && r.stretch == 1; });
  EXPECT_EQ(verdict(run), "plan epoch 0, stretch 1: stage 0: no forward of minibatch 8");
  run = changing_run();
  std::erase_if(run.records, [](const auto& r) { return r.stretch == 2; });
  EXPECT_EQ(verdict(run), "plan epoch 1: no forward of minibatch 9 on any stage");
}

TEST(PlanEpochs, FindsAMinibatchThatBothPlansTrained) {
  auto run = changing_run();
  run.header.changes[0].first_minibatch = 8;
  EXPECT_THAT(verdict(run), HasSubstr("after the end: plan epoch 1 begins with minibatch 8"));
  run = changing_run();
  run.header.changes[0].first_minibatch = 10;
  EXPECT_EQ(verdict(run), "plan epoch 0, stretch 1: stage 0: no forward of minibatch 9");
  run = changing_run();
  run.find(span_kind::forward, 0, 9).minibatch = 8;
  EXPECT_EQ(verdict(run), "plan epoch 1, stretch 2: stage 0: forward of minibatch 8 between drains that hold "
                          "minibatches 9 to 15");
}

TEST(PlanEpochs, FindsAPlanThatTakesOverTooEarly) {
  auto run = changing_run();
  run.find(span_kind::update, 0, 8).end_ns = run.find(span_kind::forward, 0, 9).begin_ns + 5;
  EXPECT_EQ(verdict(run),
            "plan epoch 1, stretch 2: stage 0: forward of minibatch 9 before the plan ahead of it was done");
}

TEST(PlanEpochs, FindsDealingCreditsAndMicrobatchesOfTheOtherPlan) {
  auto run = changing_run();
  run.find(span_kind::forward, 0, 17).replica = 0;
  EXPECT_EQ(verdict(run), "plan epoch 2, stretch 3: stage 0 replica 0: forward of minibatch 17 belongs on replica 1");
  run = changing_run();
  run.header.changes[0].plan.stages[0].in_flight = 2;
  EXPECT_THAT(verdict(run), StartsWith("plan epoch 1, stretch 2: stage 0: forward of minibatch 11 "));
  run = changing_run();
  run.find(span_kind::forward, 1, 12).microbatch = 1;
  EXPECT_THAT(verdict(run), StartsWith("plan epoch 1, stretch 2: stage 1: forward of minibatch 12 micro-batch 1"));
}

TEST(PlanEpochs, DroppingAnySpanOrChangingAnyVersionIsNoticed) {
  const auto good = changing_run();
  for (std::size_t i = 0; i < good.records.size(); ++i) {
    const auto epoch = "plan epoch " + std::to_string(epoch_of(good.header, good.records[i]));
    auto dropped = good;
    dropped.records.erase(dropped.records.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(verdict(dropped), StartsWith(epoch)) << "without record " << i;
    auto moved = good;
    moved.records[i].stretch = 4 - moved.records[i].stretch + (moved.records[i].stretch == 2 ? 1 : 0);
    EXPECT_NE(verdict(moved), "") << "record " << i << " in another stretch";
    if (good.records[i].kind >= span_kind::send) continue; // messages carry no version that is judged
    auto changed = good;
    changed.records[i].version_read += 1;
    EXPECT_THAT(verdict(changed), StartsWith(epoch)) << "record " << i << " with another version";
  }
}

TEST(PlanEpochs, TheSummaryKeepsTheirStagesApart) {
  const auto run = make_changing_run({{{.name = "pipedream", .replicas = {1, 1}}, {40}},
                                      {{.name = "gpipe", .replicas = {1, 1, 1}, .microbatches = 4}, {20, 20}}});
  const auto file = file_of(run);
  const auto s = summarize(file);
  EXPECT_TRUE(s.stages.empty());
  ASSERT_EQ(s.epochs.size(), 2U);
  ASSERT_EQ(s.epochs[0].own.stages.size(), 2U);
  ASSERT_EQ(s.epochs[1].own.stages.size(), 3U);
  // Each is what the epoch's plan would give alone.
  const auto alone =
      summarize(file_of(make_run({.name = "gpipe", .replicas = {1, 1, 1}, .microbatches = 4}, {20, 20})));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(s.epochs[1].own.stages[i].busy(), alone.stages[i].busy());
    EXPECT_EQ(s.epochs[1].own.stages[i].ideal_bubble, alone.stages[i].ideal_bubble);
    EXPECT_EQ(s.epochs[1].own.stages[i].staleness, alone.stages[i].staleness);
  }
  EXPECT_EQ(s.epochs[1].own.edges.at({1, 2}).messages, 160);
  EXPECT_EQ(s.step.minibatches, 80);
  EXPECT_EQ(s.step.steps, s.epochs[0].own.step.steps + s.epochs[1].own.step.steps);
  EXPECT_EQ(s.sections, 3);
  EXPECT_TRUE(s.is_steady);
  EXPECT_NEAR(s.steady_seconds, s.epochs[0].own.steady_seconds + s.epochs[1].own.steady_seconds, 1e-12);

  const auto text = to_text(s, file);
  EXPECT_THAT(text, StartsWith("synthetic, 2 plans one after another, 80 minibatches\n"));
  EXPECT_THAT(text, HasSubstr("plan epoch 0, minibatches 0 to 39: schedule pipedream, 2 stages"));
  EXPECT_THAT(text, HasSubstr("plan epoch 1, minibatches 40 to 79: schedule gpipe, 3 stages, 4 micro-batches"));

  const auto json = nlohmann::json::parse(to_json(s, file));
  EXPECT_FALSE(json.contains("stages"));
  EXPECT_EQ(json.at("minibatches"), 80);
  ASSERT_EQ(json.at("plan_epochs").size(), 2U);
  EXPECT_EQ(json["plan_epochs"][1].at("plan_epoch"), 1);
  EXPECT_EQ(json["plan_epochs"][1].at("first_minibatch"), 40);
  EXPECT_EQ(json["plan_epochs"][1].at("minibatches"), 40);
  EXPECT_EQ(json["plan_epochs"][1].at("schedule"), "gpipe");
  EXPECT_EQ(json["plan_epochs"][1].at("stages").size(), 3U);
}

TEST(PlanEpochs, ALifelineIsOfTheMinibatchsOwnPlan) {
  const auto file = file_of(changing_run());
  EXPECT_THAT(lifeline(file, 8), StartsWith("minibatch 8 of synthetic, plan epoch 0\n"));
  EXPECT_THAT(lifeline(file, 8), Not(HasSubstr("stage 2")));
  EXPECT_THAT(lifeline(file, 9), HasSubstr("stage 2"));
  EXPECT_THAT(lifeline(file, 17), HasSubstr("stage 0 replica 1"));
  // The last stage's backward follows its own forward under either plan: nothing but what it needs lies between.
  EXPECT_THAT(refusal([&] { lifeline(file, 22); }), HasSubstr("the trace has no minibatch 22, only 0 to 21"));
}

TEST(PlanEpochs, ATimelineHasAPictureForEachPlan) {
  const auto file = file_of(changing_run());
  const auto inside = timeline(file, 9, 12, 60);
  EXPECT_THAT(inside, StartsWith("plan epoch 1, minibatches 9 to 15:\n"));
  EXPECT_THAT(inside, HasSubstr("stage 2"));
  EXPECT_THAT(inside, Not(HasSubstr("plan epoch 0")));
  const auto across = timeline(file, 7, 18, 60);
  for (const char* name : {"plan epoch 0, minibatches 0 to 8:", "plan epoch 1, minibatches 9 to 15:",
                           "plan epoch 2, minibatches 16 to 21:"})
    EXPECT_THAT(across, HasSubstr(name));
}

TEST(PlanEpochs, ADiffComparesWholeRunsAndSaysWhyNotTheStages) {
  const auto changed = file_of(changing_run());
  const auto plain = file_of(make_run({.name = "pipedream", .replicas = {1, 1}}, {22}));
  const auto d = compare_traces(plain, changed);
  EXPECT_TRUE(d.stages.empty());
  ASSERT_FALSE(d.differences.empty());
  EXPECT_EQ(d.differences[0], "changes of plan: none in A, at minibatch 9, 16 in B");
  EXPECT_GT(d.busy.b, 0);
  EXPECT_LE(d.busy.b, 1);
  EXPECT_NEAR(d.busy.b + d.bubble.b, 1, 1e-9);
  EXPECT_THAT(to_text(d, plain, changed),
              HasSubstr("(the plan changes within a run, so there is nothing to compare by stage)"));
  EXPECT_EQ(nlohmann::json::parse(to_json(d, plain, changed)).at("b").at("changes").size(), 2U);
  const auto other =
      compare_traces(changed, file_of(make_changing_run({{{.name = "pipedream", .replicas = {1, 1}}, {9}},
                                                         {{.name = "2bw", .replicas = {1, 1, 1}}, {13}}})));
  EXPECT_THAT(other.differences, testing::Contains("plan epoch 1, schedule: pipedream in A, 2bw in B"));
}

TEST(PlanEpochs, EveryCommandTakesARunThatChanged) {
  const scratch_file file("commands.pftrace");
  changing_run().write(file.path());
  const auto name = file.path().string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"summary", name},
                                                {"summary", name, "--json"},
                                                {"timeline", name, "--from", "7", "--to", "17"},
                                                {"lifeline", name, "9"},
                                                {"check", name},
                                                {"diff", name, name}}) {
    std::ostringstream out, err;
    EXPECT_EQ(trace_command(words, out, err), 0) << words[0] << ": " << err.str();
    EXPECT_EQ(err.str(), "") << words[0];
  }
}

} // namespace
} // namespace penstock::actors
