// What a request settles to, and the message of every refusal.
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

std::vector<std::int64_t> credits_of(const schedule& s) {
  std::vector<std::int64_t> credits;
  for (const auto& stage : s.stages)
    credits.push_back(stage.credit);
  return credits;
}

std::vector<std::int64_t> readable_of(const schedule& s) {
  std::vector<std::int64_t> readable;
  for (const auto& stage : s.stages)
    readable.push_back(stage.readable_versions);
  return readable;
}

std::string refusal(const schedule_request& r) {
  return refusal_of([&] { resolve_schedule(r); });
}

using counts = std::vector<std::int64_t>;

TEST(Schedule, NamesFollowTheTable) {
  EXPECT_EQ(schedule_names(), (std::vector<std::string>{"model-parallel", "data-parallel", "gpipe", "1f1b", "pipedream",
                                                        "pipedream-vertical-sync", "pipedream-naive", "2bw",
                                                        "interleaved", "zb-h1", "zb-h2"}));
}

TEST(Schedule, SaysWhoRunsWhat) {
  const auto s = resolve_schedule(request("pipedream", {2, 1}, 0, 7));
  EXPECT_EQ(s.minibatches, 7);
  EXPECT_EQ(workers_of(s), (std::vector<worker>{{0, 0}, {0, 1}, {1, 0}}));
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_EQ(stages_at(s, position_of(s, stage)), std::vector<int>{stage});
}

TEST(Schedule, AnUpdateTakesAMinibatchOfEachReplicaOnlyInThePipedreamFamily) {
  const auto grouped = resolve_schedule(request("pipedream", {3, 1}, 1, 7));
  EXPECT_EQ(minibatches_per_update(grouped, 0), 3);
  EXPECT_EQ(update_of(grouped, 0, 5), 1);
  EXPECT_EQ(updates_of(grouped, 0), 3) << "the last is of one minibatch";
  EXPECT_EQ(updates_of(grouped, 1), 7);
  const auto flushed = resolve_schedule(request("1f1b", {3, 1}, 4, 7));
  EXPECT_EQ(update_of(flushed, 0, 5), 5);
  EXPECT_EQ(updates_of(flushed, 0), 7);
}

TEST(Schedule, DealsAsBeforeAfterItsPeriod) {
  EXPECT_EQ(dealing_period(resolve_schedule(request("pipedream", {3, 2, 1}, 1, 1))), 6);
  EXPECT_EQ(dealing_period(resolve_schedule(request("1f1b", {3, 2}, 4, 1))), 3);
  EXPECT_EQ(dealing_period(resolve_schedule(request("1f1b", {1, 1}, 8, 1))), 1);
  EXPECT_EQ(dealing_period(resolve_schedule(request("1f1b", {1009, 1013}, 1, 1))), 0) << "more than a million";
}

TEST(Schedule, NamesActionsForPeople) {
  EXPECT_EQ(describe({action_kind::forward, 3, 1, 0}), "forward of minibatch 3 micro-batch 1");
  EXPECT_EQ(describe({action_kind::backward_weight, 3, 1, 0}), "backward_weight of minibatch 3 micro-batch 1");
  EXPECT_EQ(describe({action_kind::update, 4, 0, 5}), "update 4");
}

TEST(Schedule, SettlesTheTablesRow) {
  const auto model = resolve_schedule(request("model-parallel", {1, 1, 1}, 4, 1, "double"));
  EXPECT_EQ(credits_of(model), (counts{1, 1, 1}));
  const auto data = resolve_schedule(request("data-parallel", {3}, 0, 1));
  EXPECT_EQ(data.microbatches, 3);
  EXPECT_EQ(credits_of(data), (counts{1}));
  const auto gpipe = resolve_schedule(request("gpipe", {2, 1}, 5, 1));
  EXPECT_EQ(credits_of(gpipe), (counts{3, 5}));
  EXPECT_EQ(readable_of(gpipe), (counts{1, 1}));
  const auto flush = resolve_schedule(request("1f1b", {1, 1, 1}, 0, 1));
  EXPECT_EQ(flush.microbatches, 1);
  EXPECT_EQ(credits_of(flush), (counts{3, 2, 1}));
  EXPECT_EQ(readable_of(flush), (counts{1, 1, 1}));
  const auto stashing = resolve_schedule(request("pipedream", {2, 1, 1}, 1, 1));
  EXPECT_EQ(credits_of(stashing), (counts{2, 2, 1}));
  EXPECT_EQ(readable_of(stashing), (counts{2, 2, 1}));
  const auto vertical = resolve_schedule(request("pipedream-vertical-sync", {1, 1, 1}, 1, 1));
  EXPECT_EQ(readable_of(vertical), (counts{3, 3, 3}));
  const auto naive = resolve_schedule(request("pipedream-naive", {1, 1}, 1, 1));
  EXPECT_EQ(readable_of(naive), (counts{1, 1}));
  const auto buffered = resolve_schedule(request("2bw", {1, 1, 1}, 0, 1));
  EXPECT_EQ(buffered.microbatches, 2);
  EXPECT_EQ(readable_of(buffered), (counts{2, 2, 2}));
}

TEST(Schedule, SaysHowUpdatesAreFormed) {
  for (const auto& name : schedule_names()) {
    const auto s = resolve_schedule(request(name, {2}, 1, 1));
    const bool is_pipedream = name.starts_with("pipedream");
    EXPECT_EQ(s.updates.per_minibatch_group, is_pipedream) << name;
    EXPECT_EQ(s.updates.scale_learning_rate, is_pipedream) << name;
    EXPECT_EQ(s.synchronous, !is_pipedream && name != "2bw") << name;
    EXPECT_EQ(s.stashes_weights, name != "pipedream-naive") << name;
  }
}

TEST(Schedule, NamedModesNeverLeaveGpipeShortOfItsMinibatch) {
  EXPECT_EQ(credits_of(resolve_schedule(request("gpipe", {1, 1}, 4, 1, "tight"))), (counts{4, 4}));
  EXPECT_EQ(credits_of(resolve_schedule(request("gpipe", {1, 1, 1}, 2, 1, "double"))), (counts{5, 3, 2}));
}

TEST(Schedule, GpipesOwnCreditsMayBeGivenBack) {
  EXPECT_EQ(refusal(request("gpipe", {2, 1}, 2, 1, "1,2")), "");
}

TEST(Schedule, DealsByARunningNumber) {
  const auto s = resolve_schedule(request("1f1b", {2, 3}, 3, 4));
  EXPECT_EQ(replica_of(s, 0, 0, 2), 0);
  EXPECT_EQ(replica_of(s, 0, 1, 0), 1);
  EXPECT_EQ(replica_of(s, 1, 1, 1), 1);
  const auto p = resolve_schedule(request("pipedream", {2, 3}, 1, 4));
  EXPECT_EQ(replica_of(p, 0, 3, 0), 1);
  EXPECT_EQ(replica_of(p, 1, 3, 0), 0);
}

TEST(Schedule, MicrobatchSamplesDifferByAtMostOneLargerFirst) {
  counts samples;
  for (int m = 0; m < 4; ++m)
    samples.push_back(microbatch_samples(10, 4, m));
  EXPECT_EQ(samples, (counts{3, 3, 2, 2}));
  EXPECT_EQ(microbatch_samples(2, 3, 2), 0);
  EXPECT_EQ(refusal_of([] { microbatch_samples(4, 2, 2); }), "micro-batch 2 of 2 over 4 samples does not exist");
  EXPECT_NE(refusal_of([] { microbatch_samples(-1, 2, 0); }), "");
}

TEST(Schedule, RefusesAnUnknownNameAndSuggestsTheNearest) {
  EXPECT_EQ(refusal(request("pipedrem", {1}, 1, 1)),
            "unknown schedule 'pipedrem': did you mean 'pipedream'? Known: model-parallel, data-parallel, gpipe, 1f1b, "
            "pipedream, pipedream-vertical-sync, pipedream-naive, 2bw, interleaved, zb-h1, zb-h2");
  EXPECT_NE(refusal(request("2wb", {1}, 1, 1)).find("did you mean '2bw'?"), std::string::npos);
}

TEST(Schedule, RefusesCountsBelowOne) {
  EXPECT_EQ(refusal(request("1f1b", {}, 1, 1)), "replicas: no stages given, wanted one count per stage");
  EXPECT_EQ(refusal(request("1f1b", {1, 0}, 1, 1)), "replicas of stage 1 is 0, wanted at least 1");
  EXPECT_EQ(refusal(request("1f1b", {40000, 40000}, 1, 1)), "replicas: 80000 over all stages, wanted at most 65536");
  EXPECT_EQ(refusal(request("1f1b", {1}, -2, 1)), "micro-batches is -2, wanted at least 1");
  EXPECT_EQ(refusal(request("1f1b", {1}, 1, -1)), "minibatches is -1, wanted at least 0");
  auto r = request("1f1b", {1}, 1, 1);
  r.window = -1;
  EXPECT_EQ(refusal(r), "window is -1, wanted at least 0");
}

TEST(Schedule, RefusesMicrobatchesInThePipedreamFamily) {
  EXPECT_EQ(refusal(request("pipedream", {1, 1}, 4, 1)),
            "pipedream moves whole minibatches: micro-batches is 4, wanted 1; to accumulate gradients over "
            "micro-batches without a flush use 2bw");
  for (const auto* name : {"pipedream-vertical-sync", "pipedream-naive"})
    EXPECT_NE(refusal(request(name, {1, 1}, 2, 1)).find("use 2bw"), std::string::npos) << name;
}

TEST(Schedule, RefusesDataParallelStages) {
  EXPECT_EQ(refusal(request("data-parallel", {1, 1}, 1, 1)), "data-parallel has one stage, found 2");
}

TEST(Schedule, RefusesVerticalSyncOverUnequalReplicas) {
  EXPECT_EQ(refusal(request("pipedream-vertical-sync", {2, 2, 1}, 1, 1)),
            "pipedream-vertical-sync needs equal replica counts: stage 0 has 2, stage 2 has 1");
}

TEST(Schedule, RefusesTooFewMicrobatchesForTwoBuffers) {
  EXPECT_EQ(refusal(request("2bw", {1, 1, 1, 1}, 2, 1)),
            "2bw keeps two versions: micro-batches is 2, wanted at least 3, (K - 1) x replicas of stage 0");
  EXPECT_EQ(refusal(request("2bw", {1, 1, 1, 1}, 3, 1)), "");
}

TEST(Schedule, RefusesCreditsThatDoNotFit) {
  EXPECT_EQ(refusal(request("1f1b", {1, 1, 1}, 1, 1, "2,1")),
            "in-flight has 2 counts for 3 stages, wanted one per stage");
  EXPECT_EQ(refusal(request("1f1b", {1, 2}, 1, 1, "2,2")),
            "in-flight 2 of stage 1 can deadlock: (K - 1) x replicas is 2 there and 1 on stage 0; wanted K at most 1");
  EXPECT_EQ(refusal(request("model-parallel", {1, 1}, 1, 1, "2,1")),
            "model-parallel has one in flight: in-flight of stage 0 is 2, wanted 1");
  EXPECT_EQ(refusal(request("gpipe", {1, 2}, 3, 1, "3,1")),
            "gpipe holds a whole minibatch: in-flight of stage 1 is 1, wanted at least 2 for 3 micro-batches on 2 "
            "replicas");
  auto zero = request("1f1b", {1, 1}, 1, 1);
  zero.in_flight = {in_flight_spec::mode::given, {1, 0}};
  EXPECT_EQ(refusal(zero), "in-flight of stage 1 is 0, wanted at least 1");
}

} // namespace
} // namespace penstock::planner::testing
