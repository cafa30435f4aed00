// Good histories of every schedule pass; each kind of fault is found and named.
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::actors {
namespace {

using planner::schedule_request;
using testing::HasSubstr;
using mode = planner::in_flight_spec::mode;

std::string verdict(const synthetic_run& run) {
  auto records = run.records;
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return check_history(run.header, records).value_or("");
}

synthetic_run pipedream_run() {
  return make_run({.name = "pipedream", .replicas = {1, 1, 1}}, {6, 5});
}

TEST(History, GoodRunsOfEveryScheduleHold) {
  for (const auto& name : planner::schedule_names())
    for (const auto& replicas :
         std::vector<std::vector<int>>{{1}, {3}, {1, 1}, {1, 1, 1}, {2, 1}, {1, 2, 1}, {3, 1}, {2, 2}})
      for (const auto credits : {mode::standard, mode::doubled, mode::full})
        for (const int microbatches : {0, 4})
          for (const int window : {0, 2}) {
            schedule_request request{.name = name,
                                     .replicas = replicas,
                                     .microbatches = microbatches,
                                     .in_flight = {credits, {}},
                                     .window = window};
            try {
              planner::resolve_schedule(request);
            } catch (const std::invalid_argument&) {
              continue; // not a schedule for these replicas or micro-batches
            }
            ASSERT_EQ(verdict(make_run(request, {7, 1, 4})), "")
                << name << " " << testing::PrintToString(replicas) << " M " << microbatches << " w " << window;
          }
}

schedule_request frozen_request(const std::string& name, std::vector<int> replicas, int frozen_stages) {
  return {.name = name,
          .replicas = std::move(replicas),
          .microbatches = name.starts_with("pipedream") ? 0 : 4,
          .frozen_stages = frozen_stages};
}

TEST(History, FrozenStagesHaveForwardsAlone) {
  for (const auto& name : planner::schedule_names()) {
    if (name == "interleaved" || name == "data-parallel") continue;
    for (const auto& replicas : std::vector<std::vector<int>>{{1, 1}, {1, 1, 1}, {2, 1, 1}, {3, 2, 2}})
      for (int frozen = 1; frozen < static_cast<int>(replicas.size()); ++frozen)
        ASSERT_EQ(verdict(make_run(frozen_request(name, replicas, frozen), {7, 1, 4})), "")
            << name << " " << testing::PrintToString(replicas) << " frozen " << frozen;
  }
}

TEST(History, AFrozenStageThatDoesMoreOrLessIsFound) {
  const auto good = make_run(frozen_request("pipedream", {1, 1, 1}, 1), {6});
  auto run = good;
  run.erase(run.find(span_kind::forward, 0, 3));
  EXPECT_THAT(verdict(run), HasSubstr("stage 0"));
  run = good;
  auto backward = run.find(span_kind::forward, 0, 3);
  backward.kind = span_kind::backward;
  backward.begin_ns = backward.end_ns;
  run.records.push_back(backward);
  EXPECT_THAT(verdict(run), HasSubstr("backward of minibatch 3 on a frozen stage"));
  run = good;
  auto update = run.find(span_kind::update, 1, 0);
  update.stage = 0;
  run.records.push_back(update);
  EXPECT_THAT(verdict(run), HasSubstr("stage 0"));
  run = good;
  run.find(span_kind::forward, 0, 3).version_read = 1;
  EXPECT_THAT(verdict(run), HasSubstr("stage 0"));
  run = make_run({.name = "1f1b", .replicas = {1, 1}}, {6});
  run.header.plan.first_active = "layer1"; // of a run in which nothing was frozen
  EXPECT_THAT(verdict(run), HasSubstr("backward of minibatch 0 on a frozen stage"));
}

TEST(History, AWorkersChunksTakeTurnsAsItsOneOrderSays) {
  const planner::schedule_request request{.name = "interleaved", .replicas = {1, 1}, .microbatches = 4, .chunks = 2};
  auto run = make_run(request, {3, 2});
  EXPECT_EQ(run.header.plan.chunks, 2);
  EXPECT_EQ(verdict(run), "");
  run.find(span_kind::forward, 0, 0, 2).begin_ns -= 500; // into the forward of stage 2 before it
  EXPECT_THAT(verdict(run), ::testing::HasSubstr("worker 0: forward of minibatch 0 micro-batch 2 of stage 0 while the "
                                                 "worker was busy with another stage"));
  run = make_run(request, {3, 2});
  // In each stage's own order nothing is wrong with it.
  auto& first = run.find(span_kind::forward, 0, 0, 2);
  auto& second = run.find(span_kind::backward, 2, 0, 0);
  const auto begin = first.begin_ns, end = second.end_ns;
  second.begin_ns = begin;
  second.end_ns = begin + 2000;
  first.begin_ns = end - 1000;
  first.end_ns = end;
  EXPECT_NE(verdict(run), "");
}

TEST(History, GoodRunsWithAnUpdateLagHold) {
  for (const auto& replicas : std::vector<std::vector<int>>{{1}, {4}, {1, 1, 1}, {3, 1}, {1, 2, 1}})
    for (const std::int64_t lag : {1, 2})
      for (const int window : {0, 2})
        ASSERT_EQ(verdict(make_run({.name = "pipedream", .replicas = replicas, .window = window, .update_lag = {lag}},
                                   {9, 1, 5})),
                  "")
            << testing::PrintToString(replicas) << " lag " << lag << " w " << window;
}

TEST(History, FindsAReadThatIsStalerThanTheLagAllows) {
  auto run = make_run({.name = "pipedream", .replicas = {1, 1}, .update_lag = {1}}, {9});
  for (auto& stage : run.header.plan.stages)
    stage.update_lag = 0;
  EXPECT_THAT(verdict(run), HasSubstr("the schedule gives it"));
}

TEST(History, AnEmptyRunHolds) {
  auto run = pipedream_run();
  run.records.clear();
  run.header.minibatches = 0;
  EXPECT_EQ(verdict(run), "");
}

TEST(History, AResumedRunHoldsFromItsFirstMinibatch) {
  auto run = pipedream_run();
  for (const std::int64_t first : {-1, 40}) {
    auto resumed = run;
    for (auto& r : resumed.records) {
      r.minibatch += 40;
      if (r.version_read >= 0) r.version_read += 17;
      if (r.version_written >= 0) r.version_written += 17;
    }
    resumed.header.first_minibatch = first;
    resumed.header.minibatches += 40;
    EXPECT_EQ(verdict(resumed), "");
  }
}

TEST(History, FindsAMissingForward) {
  auto run = pipedream_run();
  run.erase(run.find(span_kind::forward, 1, 4));
  EXPECT_EQ(verdict(run), "stage 1: no forward of minibatch 4");
}

TEST(History, FindsAMissingBackward) {
  auto run = pipedream_run();
  run.erase(run.find(span_kind::backward, 2, 10));
  EXPECT_EQ(verdict(run), "stage 2: no backward of minibatch 10");
}

TEST(History, FindsAMinibatchThatNoStageSaw) {
  auto run = pipedream_run();
  std::erase_if(run.records, [](const auto& r) { return r.minibatch == 10; });
  EXPECT_THAT(verdict(run), HasSubstr("no forward of minibatch 10"));
}

TEST(History, FindsARunThatIsNotThereAtAll) {
  auto run = pipedream_run();
  run.records.clear();
  EXPECT_EQ(verdict(run), "no forward of minibatch 0 on any stage");
}

TEST(History, FindsASpanThatIsThereTwice) {
  for (const auto kind : {span_kind::forward, span_kind::backward}) {
    auto run = pipedream_run();
    auto again = run.find(kind, 0, 3);
    again.begin_ns = again.end_ns;
    run.records.push_back(again);
    EXPECT_EQ(verdict(run), "stage 0: " + std::string(name_of(kind)) + " of minibatch 3 a second time");
  }
}

synthetic_run split_run() {
  return make_run({.name = "zb-h1", .replicas = {1, 1}, .microbatches = 3}, {3});
}

TEST(History, FindsAPartOfASplitBackwardThatIsMissingOrThereTwice) {
  auto run = split_run();
  run.erase(run.find(span_kind::backward_weight, 1, 2, 1));
  EXPECT_EQ(verdict(run), "stage 1: no backward_weight of minibatch 2 micro-batch 1");
  run = split_run();
  run.erase(run.find(span_kind::backward_input, 1, 2, 2));
  EXPECT_THAT(verdict(run), HasSubstr("no backward_input of minibatch 2 micro-batch 2"));
  for (const auto kind : {span_kind::backward_input, span_kind::backward_weight}) {
    run = split_run();
    auto again = run.find(kind, 1, 1, 0);
    again.begin_ns = again.end_ns;
    run.records.push_back(again);
    EXPECT_EQ(verdict(run), "stage 1: " + std::string(name_of(kind)) + " of minibatch 1 micro-batch 0 a second time");
  }
}

TEST(History, FindsAWeightsPartAheadOfItsInputsPartOrBehindItsUpdate) {
  auto run = split_run();
  auto& early = run.find(span_kind::backward_weight, 1, 0, 2);
  early.begin_ns = run.find(span_kind::backward_input, 1, 0, 2).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 1: backward_weight of minibatch 0 micro-batch 2 before its backward_input ended");
  run = split_run();
  run.find(span_kind::backward_weight, 1, 0, 2).end_ns = run.find(span_kind::update, 1, 0).begin_ns + 1;
  EXPECT_THAT(verdict(run), HasSubstr("before the end of the backward_weight of minibatch 0 micro-batch 2"));
}

TEST(History, FindsABackwardOfAnotherVersionThanItsForward) {
  auto run = pipedream_run();
  auto& r = run.find(span_kind::backward, 0, 3);
  const auto right = r.version_read;
  r.version_read = right + 1;
  EXPECT_EQ(verdict(run), "stage 0: backward of minibatch 3 read version " + std::to_string(right + 1) +
                              ", its forward read " + std::to_string(right));
}

TEST(History, FindsAForwardOfAVersionTheScheduleDoesNotGiveIt) {
  auto run = pipedream_run();
  run.find(span_kind::forward, 0, 4).version_read -= 1;
  run.find(span_kind::backward, 0, 4).version_read -= 1;
  EXPECT_EQ(verdict(run), "stage 0: forward of minibatch 4 read version 1, the schedule gives it 2");
}

TEST(History, FindsAForwardAheadOfTheUpdateItNeeds) {
  auto run = pipedream_run();
  auto& update = run.find(span_kind::update, 2, 0);
  update.end_ns = run.find(span_kind::forward, 2, 1).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 2: forward of minibatch 1 read version 1 before the update that writes it ended");
}

TEST(History, NaiveRunsMayReadTheNewestButNothingElse) {
  auto run = make_run({.name = "pipedream-naive", .replicas = {1, 1, 1}}, {6});
  EXPECT_NE(run.find(span_kind::backward, 0, 4).version_read, run.find(span_kind::forward, 0, 4).version_read);
  run.find(span_kind::backward, 0, 4).version_read -= 1;
  EXPECT_THAT(verdict(run), HasSubstr("stage 0: backward of minibatch 4 read version"));
}

TEST(History, FindsAnUpdateThatSkipsAVersion) {
  auto run = pipedream_run();
  run.find(span_kind::update, 1, 2).version_written = 5;
  EXPECT_EQ(verdict(run), "stage 1: update from version 2 to 5, wanted from 2 to 3");
}

TEST(History, FindsAnUpdateThatOneReplicaLacks) {
  auto run = make_run({.name = "pipedream", .replicas = {2, 1}}, {8});
  run.erase(run.find(span_kind::update, 0, 6, -1, 1));
  EXPECT_EQ(verdict(run), "stage 0 replica 1: no update to version 4");
}

TEST(History, FindsReplicasThatUpdateOnDifferentGroups) {
  auto run = make_run({.name = "pipedream", .replicas = {2, 1}}, {8});
  run.find(span_kind::update, 0, 4, -1, 1).minibatch = 5;
  EXPECT_EQ(verdict(run), "stage 0 replica 1: update to version 3 is of minibatch 5, wanted 4");
}

TEST(History, OneOptimizerMayStandForAllReplicas) {
  auto run = make_run({.name = "pipedream", .replicas = {2, 1}}, {8, 3});
  std::erase_if(run.records, [](const auto& r) { return r.kind == span_kind::update && r.replica == 1; });
  // It updates when the last of its replicas is done.
  for (auto& r : run.records)
    if (r.kind == span_kind::update && r.stage == 0)
      for (const auto& other : run.records)
        if (other.kind == span_kind::backward && other.stage == 0 && other.stretch == r.stretch &&
            other.minibatch / 2 == r.minibatch / 2)
          r.begin_ns = r.end_ns = std::max(r.begin_ns, other.end_ns);
  auto early = run;
  for (auto& r : run.records) // and the next forwards wait for it
    if (r.kind == span_kind::forward && r.stage == 0)
      for (const auto& update : early.records)
        if (update.kind == span_kind::update && update.stage == 0 && update.version_written == r.version_read)
          r.begin_ns = std::max(r.begin_ns, update.end_ns);
  EXPECT_EQ(verdict(run), "");
  auto& update = run.find(span_kind::update, 0, 2);
  update.begin_ns = run.find(span_kind::backward, 0, 3).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 0: update to version 2 before the end of the backward of minibatch 3");
  run.erase(run.find(span_kind::update, 0, 6));
  EXPECT_NE(verdict(run), "");
}

TEST(History, RanksMayRecordOneUpdateForTheirReplicas) {
  // Stage 0 has two replicas on rank 0 and two on rank 1; each rank's optimizer records as its first replica.
  auto run = make_run({.name = "data-parallel", .replicas = {4}}, {5, 3});
  set_ranks(run.header, {{0, 0, 1, 1}});
  EXPECT_EQ(verdict(run), ""); // each replica for itself
  auto shared = run;
  std::erase_if(shared.records, [](const auto& r) { return r.kind == span_kind::update && r.replica % 2 == 1; });
  EXPECT_EQ(verdict(shared), "");
  auto& update = shared.find(span_kind::update, 0, 3, -1, 2);
  const auto right = update;
  update.version_read = update.version_written;
  update.version_written += 1;
  EXPECT_EQ(verdict(shared), "stage 0 replica 2: update from version 4 to 5, wanted from 3 to 4");
  update = right;
  shared.erase(update);
  EXPECT_NE(verdict(shared), "");
  // Without ranks the same records are of a run in one process whose replica 1 did not update.
  auto lone = run;
  set_ranks(lone.header, {});
  std::erase_if(lone.records, [](const auto& r) { return r.kind == span_kind::update && r.replica == 1; });
  EXPECT_THAT(verdict(lone), HasSubstr("replica 1"));
}

TEST(History, FindsAMessageThatArrivesBeforeItWasSent) {
  auto run = pipedream_run();
  auto& sent = run.find(span_kind::send, 0, 3);
  sent.begin_ns += 1500;
  sent.end_ns += 1500;
  EXPECT_EQ(verdict(run), "stage 1: activation of minibatch 3 from stage 0 was received 1.5 us before it was sent");
}

TEST(History, FindsMessagesThatAreLostOrDoubled) {
  auto run = pipedream_run();
  run.erase(run.find(span_kind::receive, 1, 4));
  EXPECT_EQ(verdict(run), "stage 0: activation of minibatch 4 to stage 1 was sent and never received");
  run = pipedream_run();
  run.erase(run.find(span_kind::send, 2, 4));
  EXPECT_EQ(verdict(run), "stage 1: gradient of minibatch 4 from stage 2 was received and never sent");
  run = pipedream_run();
  auto again = run.find(span_kind::receive, 1, 4);
  again.begin_ns += 10;
  again.end_ns += 10;
  run.records.push_back(again);
  EXPECT_EQ(verdict(run), "stage 1: activation of minibatch 4 from stage 0 a second time");
}

TEST(History, FindsAMinibatchOnTheWrongReplica) {
  auto run = make_run({.name = "pipedream", .replicas = {2, 1}}, {8});
  run.find(span_kind::forward, 0, 3).replica = 0;
  EXPECT_EQ(verdict(run), "stage 0 replica 0: forward of minibatch 3 belongs on replica 1");
}

TEST(History, DealsMinibatchesAnewAfterADrain) {
  auto run = make_run({.name = "pipedream", .replicas = {2, 1}}, {3, 4});
  EXPECT_EQ(run.find(span_kind::forward, 0, 3).replica, 0);
  EXPECT_EQ(verdict(run), "");
}

TEST(History, FindsACreditThatIsExceeded) {
  auto run = make_run({.name = "1f1b", .replicas = {1, 1}, .microbatches = 4}, {2});
  auto& early = run.find(span_kind::forward, 1, 0, 1);
  early.begin_ns = run.find(span_kind::forward, 1, 0, 0).end_ns;
  early.end_ns = early.begin_ns + 5;
  run.find(span_kind::backward, 1, 0, 0).begin_ns += 5;
  run.find(span_kind::forward, 0, 0, 1).end_ns = early.begin_ns;
  EXPECT_EQ(verdict(run),
            "stage 1: forward of minibatch 0 micro-batch 1 is the replica's forward 2 without its backward, "
            "its credit is 1");
}

TEST(History, FindsABackwardAheadOfItsForwardOrBehindItsUpdate) {
  auto run = pipedream_run();
  auto& early = run.find(span_kind::backward, 2, 0);
  early.begin_ns = run.find(span_kind::forward, 2, 0).begin_ns - 1;
  EXPECT_EQ(verdict(run), "stage 2: backward of minibatch 0 before its forward");
  run = pipedream_run();
  run.find(span_kind::backward, 0, 2).begin_ns = run.find(span_kind::update, 0, 2).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 0: backward of minibatch 2 after update to version 3, which sums it");
  run = pipedream_run();
  run.find(span_kind::backward, 0, 2).end_ns = run.find(span_kind::update, 0, 2).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 0: update to version 3 before the end of the backward of minibatch 2");
}

TEST(History, FindsActionsAfterTheEnd) {
  auto run = pipedream_run();
  auto late = run.find(span_kind::forward, 0, 10);
  late.minibatch = 11;
  late.begin_ns = run.records.back().end_ns + 10;
  late.end_ns = late.begin_ns + 10;
  run.records.push_back(late);
  EXPECT_EQ(verdict(run), "stage 0: forward of minibatch 11 after the end: the run has 11 minibatches");
}

TEST(History, FindsWorkThatADrainShouldHaveEnded) {
  auto run = pipedream_run();
  auto& last = run.find(span_kind::update, 0, 5);
  last.end_ns = run.find(span_kind::forward, 0, 6).begin_ns + 5;
  EXPECT_THAT(verdict(run), HasSubstr("stage 0: forward of minibatch 6"));
}

TEST(History, FindsAForwardThatCannotHaveItsInputYet) {
  auto run = pipedream_run();
  auto& r = run.find(span_kind::forward, 1, 0);
  r.begin_ns = run.find(span_kind::forward, 0, 0).begin_ns + 1;
  EXPECT_EQ(verdict(run), "stage 1: forward of minibatch 0 before stage 0 sent what it needs");
}

TEST(History, FindsListsThatAreNotFollowed) {
  auto run = make_run({.name = "gpipe", .replicas = {1, 1}, .microbatches = 3}, {2});
  auto& a = run.find(span_kind::forward, 0, 1, 0);
  auto& b = run.find(span_kind::forward, 0, 1, 1);
  std::swap(a.microbatch, b.microbatch);
  EXPECT_THAT(verdict(run), HasSubstr("micro-batch"));
}

TEST(History, FindsAMissingMicrobatch) {
  auto run = make_run({.name = "1f1b", .replicas = {1, 1}, .microbatches = 3}, {2});
  run.erase(run.find(span_kind::forward, 1, 1, 2));
  EXPECT_THAT(verdict(run), HasSubstr("minibatch 1 micro-batch 2"));
}

TEST(History, RefusesAScheduleThatCannotBe) {
  auto run = pipedream_run();
  run.header.plan.schedule = "pipedraem";
  EXPECT_THAT(verdict(run), HasSubstr("did you mean 'pipedream'"));
}

TEST(History, AnyHeadersCountsCostNoMemory) {
  auto run = pipedream_run();
  run.header.minibatches = std::int64_t{1} << 52;
  EXPECT_EQ(verdict(run), "stage 0: no forward of minibatch 11");
  run.header.plan.microbatches = 1 << 30;
  EXPECT_EQ(verdict(run), "stage 0: no forward of minibatch 0 micro-batch 1");
}

TEST(History, DroppingAnySpanOrChangingAnyVersionIsNoticed) {
  for (const auto& request : {schedule_request{.name = "pipedream", .replicas = {2, 1}},
                              schedule_request{.name = "pipedream", .replicas = {2, 1}, .update_lag = {1}},
                              schedule_request{.name = "2bw", .replicas = {1, 1}, .microbatches = 2},
                              schedule_request{.name = "1f1b", .replicas = {1, 2}, .microbatches = 3}}) {
    const auto good = make_run(request, {4, 3});
    ASSERT_EQ(verdict(good), "");
    for (std::size_t i = 0; i < good.records.size(); ++i) {
      auto dropped = good;
      dropped.records.erase(dropped.records.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_NE(verdict(dropped), "") << request.name << " without record " << i;
      auto changed = good;
      changed.records[i].version_read += 1;
      if (good.records[i].kind < span_kind::send) { // messages carry no version that is judged
        EXPECT_NE(verdict(changed), "") << request.name << " record " << i << " with another version";
      }
      auto doubled = good;
      doubled.records.push_back(doubled.records[i]);
      EXPECT_NE(verdict(doubled), "") << request.name << " record " << i << " twice";
    }
  }
}

TEST(History, IncompleteTracesAreCalledSo) {
  const auto run = pipedream_run();
  trace_file file{run.header, run.records, "2 records were dropped while recording"};
  const auto found = check_history(file);
  EXPECT_EQ(found.found, history_verdict::outcome::incomplete);
  EXPECT_EQ(found.line, "the trace is incomplete: 2 records were dropped while recording");
  file.missing.clear();
  EXPECT_EQ(check_history(file).found, history_verdict::outcome::holds);
}

} // namespace
} // namespace penstock::actors
