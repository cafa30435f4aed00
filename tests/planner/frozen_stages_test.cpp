// Stages that are wholly frozen: forwards alone, and the rest as if they were not there.
#include "planner/check_schedule.hpp"
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using lists = std::vector<std::string>;

schedule_request frozen(schedule_request r, int stages, std::int64_t ahead = 0) {
  r.frozen_stages = stages;
  r.ahead = ahead;
  return r;
}

TEST(FrozenStages, GoForwardOnlyAndTheRestIsInTheirPlace) {
  const auto s = resolve_schedule(frozen(request("pipedream", {1, 1, 1}, 1, 4), 1));
  EXPECT_EQ(texts_of(s), (lists{"F0 F1 F2 F3", "F0 F1 B0 U0 F2@1 B1 U1 F3@2 B2@1 U2 B3@2 U3",
                                "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3"}));
  EXPECT_EQ(s.source_credit(), 3) << "K_f R_f, and R_f more by default";
  EXPECT_EQ(s.stages[0].readable_versions, 1);
  EXPECT_EQ(updates_of(s, 0), 0);
}

TEST(FrozenStages, SplitBackwardsBeginAtTheFirstActiveStage) {
  EXPECT_EQ(texts_of(resolve_schedule(frozen(request("zb-h1", {1, 1, 1}, 2, 1), 1)))[1], "F0.0 F0.1 B0.0 B0.1 U0");
}

/// Every schedule with every number of frozen stages in front, replicated or not.
TEST(FrozenStages, LeaveActiveStagesAsIfTheyWereAlone) {
  for (const auto& name : schedule_names())
    for (const auto& replicas : {std::vector<int>{1, 1}, {1, 1, 1, 1}, {2, 2, 2}, {3, 1, 2, 1}, {1, 2, 1}, {2, 1, 4}})
      for (int stages = 0; stages < static_cast<int>(replicas.size()); ++stages)
        for (const char* in_flight : {"", "double", "full"}) {
          const std::vector<int> active(replicas.begin() + stages, replicas.end());
          const auto microbatches = name.starts_with("pipedream") || name == "2bw" ? 0 : 5;
          schedule alone, s;
          try {
            alone = resolve_schedule(request(name, active, microbatches, 7, in_flight));
            s = resolve_schedule(frozen(request(name, replicas, microbatches, 7, in_flight), stages, stages));
          } catch (const std::invalid_argument&) {
            continue; // equal replica counts, one stage, and the like
          }
          SCOPED_TRACE(name + " frozen " + std::to_string(stages) + " of " + std::to_string(replicas.size()));
          EXPECT_EQ(s.microbatches, alone.microbatches);
          EXPECT_EQ(s.source_credit(), alone.source_credit() + stages);
          const auto all = texts_of(s), wanted = texts_of(alone);
          EXPECT_TRUE(std::equal(wanted.rbegin(), wanted.rend(), all.rbegin()));
          for (std::size_t i = 0; i + wanted.size() < all.size(); ++i)
            EXPECT_EQ(all[i].find_first_of("BIWU@"), std::string::npos) << all[i];
          EXPECT_EQ(check_schedule(s), std::nullopt);
          EXPECT_NO_THROW(simulate(s, std::vector<stage_times>(replicas.size())));
        }
}

TEST(FrozenStages, RunAheadOfTheOthersAsFarAsTheSourceMay) {
  // The first stage is fast; the second takes 3 a minibatch.
  const std::vector<stage_times> times{{.forward = 0.1}, {.forward = 1, .backward = 2}};
  for (const std::int64_t ahead : {1, 3}) {
    const auto run = simulate(resolve_schedule(frozen(request("1f1b", {1, 1}, 1, 20), 1, ahead)), times);
    EXPECT_NEAR(run.makespan, 0.1 + 20 * 3, 1e-9) << "only the first of its forwards is waited for";
    std::int64_t first_backward_after = 0;
    for (const auto& span : run.spans) {
      if (span.stage == 1 && span.what.kind == action_kind::backward) break;
      first_backward_after += span.stage == 0 ? 1 : 0;
    }
    EXPECT_EQ(first_backward_after, 1 + ahead);
  }
}

TEST(FrozenStages, AreProvedByAPeriodToo) {
  for (const auto& name : schedule_names()) {
    if (name == "interleaved" || name == "data-parallel") continue;
    const auto microbatches = name.starts_with("pipedream") || name == "2bw" ? 0 : 3;
    const auto s = resolve_schedule(frozen(request(name, {3, 2, 2}, microbatches, 1'000'000), 1, 9));
    EXPECT_TRUE(equivalent_minibatches(s, sequences_of(s))) << name;
    EXPECT_EQ(check_schedule(s), std::nullopt) << name;
  }
}

std::string refusal(const schedule_request& r) {
  return refusal_of([&] { resolve_schedule(r); });
}

TEST(FrozenStages, AreRefusedWhereTheyCannotBe) {
  EXPECT_EQ(refusal(frozen(request("1f1b", {1, 1}, 2, 1), 2)),
            "frozen stages: 2 of 2, wanted 0 to 1, since the loss stays active");
  EXPECT_EQ(refusal(frozen(request("1f1b", {1, 1}, 2, 1), -1)),
            "frozen stages: -1 of 2, wanted 0 to 1, since the loss stays active");
  EXPECT_EQ(refusal(frozen(request("1f1b", {1, 1}, 2, 1), 0, 3)),
            "ahead is 3 and no stage is wholly frozen, wanted 0: only frozen stages run ahead");
  EXPECT_EQ(refusal(frozen(request("1f1b", {1, 1}, 2, 1), 1, -3)), "ahead is -3, wanted 0 to 1000000");
  EXPECT_EQ(refusal(frozen(request("interleaved", {1, 1}, 2, 1), 1)),
            "interleaved cannot let stages run ahead of the others of their worker: 1 frozen at the front, wanted "
            "none; a frozen part of stage 0 it can");
  auto lagging = frozen(request("pipedream", {2, 2}, 0, 1), 1);
  lagging.update_lag = {1, 1};
  EXPECT_EQ(refusal(lagging), "update-lag of stage 0 is 1, wanted 0: the stage is frozen and has no update");
  lagging.update_lag = {1};
  EXPECT_EQ(resolve_schedule(lagging).stages[0].update_lag, 0) << "one for all is one for all that are active";
  EXPECT_EQ(resolve_schedule(lagging).stages[1].update_lag, 1);
}

TEST(FrozenStages, NeedNotKeepTheRuleOfCreditsAndOfEqualReplicas) {
  EXPECT_EQ(refusal(frozen(request("1f1b", {1, 1, 1}, 4, 1, "1,2,1"), 1)), "");
  EXPECT_NE(refusal(request("1f1b", {1, 1, 1}, 4, 1, "1,2,1")), "");
  EXPECT_NE(refusal(frozen(request("1f1b", {1, 1, 1}, 4, 1, "1,1,2"), 1)), "");
  EXPECT_EQ(refusal(frozen(request("pipedream-vertical-sync", {1, 2, 2}, 0, 1), 1)), "");
  EXPECT_EQ(refusal(frozen(request("pipedream-vertical-sync", {2, 2, 1}, 0, 1), 1)),
            "pipedream-vertical-sync needs equal replica counts: stage 1 has 2, stage 2 has 1");
  EXPECT_EQ(refusal(frozen(request("2bw", {1, 1, 1}, 1, 1, "9,2,1"), 1)), "");
}

TEST(FrozenStages, AreFoundOutWhereTheyDoMore) {
  const auto s = resolve_schedule(frozen(request("1f1b", {1, 1}, 1, 2), 1));
  const auto fault_with = [&](const action& more) {
    auto orders = sequences_of(s);
    auto list = write_out(orders[0]);
    list.push_back(more);
    orders[0] = sequence(s, list);
    return check_schedule(s, orders).value_or("");
  };
  EXPECT_EQ(fault_with({action_kind::backward, 1, 0, 0, 0}),
            "stage 0 replica 0: backward of minibatch 1 micro-batch 0 is there, and the stage is frozen: wanted "
            "forwards alone");
  EXPECT_EQ(fault_with(update_action(0, 0)),
            "stage 0 replica 0: update 0 is there, and the stage is frozen: wanted forwards alone");
  EXPECT_EQ(fault_with({action_kind::forward, 1, 0, 0, 0}),
            "stage 0 replica 0: forward of minibatch 1 micro-batch 0 is there twice");
  auto orders = sequences_of(s);
  orders[0] = sequence(s, {{action_kind::forward, 0, 0, 0, 0}});
  EXPECT_EQ(check_schedule(s, orders), "stage 0 replica 0: forward of minibatch 1 micro-batch 0 is missing");
  orders[0] = sequence(s, {{action_kind::forward, 0, 0, 0, 0}, {action_kind::forward, 1, 0, 1, 0}});
  EXPECT_EQ(
      check_schedule(s, orders),
      "stage 0 replica 0: forward of minibatch 1 micro-batch 0 reads version 1, which no update before it writes");
}

} // namespace
} // namespace penstock::planner::testing
