// Update lag: where updates stand, what forwards read, and that nothing stops (DESIGN section 2 rule 6).
#include "planner/check_schedule.hpp"
#include "planner/update_lag.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::planner::testing {
namespace {

using lists = std::vector<std::string>;
using counts = std::vector<std::int64_t>;

schedule_request lagging(std::vector<int> replicas, std::int64_t minibatches, counts lags) {
  auto r = request("pipedream", std::move(replicas), 1, minibatches);
  r.update_lag = std::move(lags);
  return r;
}

TEST(UpdateLag, AnUpdateStandsJustBeforeTheFirstForwardThatReadsIt) {
  EXPECT_EQ(texts_of(resolve_schedule(lagging({1, 1}, 5, {1}))),
            (lists{"F0 F1 B0 F2 B1 U0 F3@1 B2 U1 F4@2 B3@1 U2 B4@2 U3 U4",
                   "F0 B0 F1 B1 U0 F2@1 B2@1 U1 F3@2 B3@2 U2 F4@3 B4@3 U3 U4"}));
  EXPECT_EQ(texts_of(resolve_schedule(lagging({1}, 4, {2}))), (lists{"F0 B0 F1 B1 F2 B2 U0 F3@1 B3@1 U1 U2 U3"}));
}

TEST(UpdateLag, EveryStageHasItsOwn) {
  EXPECT_EQ(texts_of(resolve_schedule(lagging({1, 1}, 3, {0, 1}))),
            (lists{"F0 F1 B0 U0 F2@1 B1 U1 B2@1 U2", "F0 B0 F1 B1 U0 F2@1 B2@1 U1 U2"}));
}

TEST(UpdateLag, ReplicasTakeTheTailsUpdatesAfterTheirLastBackward) {
  EXPECT_EQ(texts_of(resolve_schedule(lagging({3}, 7, {1}))),
            (lists{"F0 B0 F3 B3 U0 F6@1 B6@1 U1 U2", "F1 B1 F4 B4 U0 U1 U2", "F2 B2 F5 B5 U0 U1 U2"}));
  EXPECT_EQ(texts_of(resolve_schedule(lagging({3}, 1, {1}))), (lists{"F0 B0 U0", "U0", "U0"}));
}

TEST(UpdateLag, OfNoneIsThePlainSchedule) {
  EXPECT_EQ(texts_of(resolve_schedule(lagging({2, 1}, 9, {0}))),
            texts_of(resolve_schedule(request("pipedream", {2, 1}, 1, 9))));
}

TEST(UpdateLag, KeepsSoManyVersionsMore) {
  const auto s = resolve_schedule(lagging({2, 1, 1}, 9, {1, 0, 2}));
  counts lags, readable;
  for (const auto& stage : s.stages) {
    lags.push_back(stage.update_lag);
    readable.push_back(stage.readable_versions);
  }
  EXPECT_EQ(lags, (counts{1, 0, 2}));
  EXPECT_EQ(readable, (counts{3, 2, 3})) << "K are 2, 2, 1";
}

TEST(UpdateLag, TheCheckerKnowsWhatIsHeld) {
  const auto right = resolve_schedule(lagging({1, 1}, 200, {1}));
  EXPECT_EQ(check_schedule(right), std::nullopt);
  auto wrong = right;
  wrong.stages[0].readable_versions = 2;
  EXPECT_EQ(check_schedule(wrong), "stage 0 replica 0: backward of minibatch 2 micro-batch 0 reads version 0 of 3 "
                                   "readable versions, wanted at most 2");
  const auto orders = sequences_of(right);
  wrong = right;
  wrong.stages[1].update_lag = 0;
  EXPECT_EQ(check_schedule(wrong, orders), "stage 1 replica 0: backward of minibatch 1 micro-batch 0 holds 2 gradient "
                                           "sets, wanted at most 1");
}

/// By the rule alone: of every replica the places of its updates, and the versions that its forwards read.
void expect_rule(const schedule& s, int stage_number, int replica) {
  const auto& stage = s.stages[static_cast<std::size_t>(stage_number)];
  const auto own = s.minibatches > replica ? (s.minibatches - replica + stage.replicas - 1) / stage.replicas : 0;
  std::int64_t forwards = 0, backwards = 0, updates = 0;
  for (const auto& a : list_of(s, stage_number, replica)) {
    if (a.kind == action_kind::update) {
      ASSERT_EQ(backwards, std::min(own, updates + stage.update_lag + 1));
      ++updates;
      continue;
    }
    if (a.kind == action_kind::backward) {
      ++backwards;
      continue;
    }
    ASSERT_EQ(a.version, std::max<std::int64_t>(0, forwards - (stage.credit - 1) - stage.update_lag));
    ASSERT_EQ(a.version, updates);
    ASSERT_LE(++forwards - backwards, stage.credit) << "no more are in flight than without a lag";
  }
  ASSERT_EQ(updates, (s.minibatches + stage.replicas - 1) / stage.replicas);
}

TEST(UpdateLag, RandomPlansKeepTheRuleAndNeverStop) {
  dice d(77);
  for (int i = 0; i < 1500; ++i) {
    schedule_request r{.name = "pipedream", .replicas = {}, .minibatches = d.between(0, 40)};
    for (auto stages = d.between(1, 5); stages > 0; --stages) {
      r.replicas.push_back(d.between(1, 4));
      r.update_lag.push_back(d.between(0, 3));
    }
    r.in_flight = {in_flight_spec::mode::given, random_credits(d, r.replicas)};
    SCOPED_TRACE(show(r));
    const auto s = resolve_schedule(r);
    ASSERT_EQ(check_schedule(s), std::nullopt);
    for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
      for (int replica = 0; replica < s.stages[stage].replicas; ++replica) {
        expect_rule(s, static_cast<int>(stage), replica);
        ASSERT_FALSE(HasFatalFailure());
      }
    // Stopped at any place where nothing later has begun, a sequence goes on as the shorter one.
    const auto end = d.between(0, static_cast<int>(r.minibatches));
    auto shorter = s;
    shorter.minibatches = end;
    for (const auto& w : workers_of(s)) {
      sequence cut(s, w);
      std::vector<action> done;
      while (cut.peek() && cut.peek()->kind != action_kind::update && cut.peek()->minibatch < end)
        done.push_back(*cut.next());
      cut.end_after(end);
      for (const auto& a : write_out(cut))
        done.push_back(a);
      ASSERT_EQ(done, write_out(sequence(shorter, w)));
    }
  }
}

TEST(UpdateLag, IsRefusedWhereItCannotBe) {
  const auto refused = [](const char* name, std::vector<int> replicas, counts lags) {
    auto r = request(name, std::move(replicas), 1, 1);
    r.update_lag = std::move(lags);
    return refusal_of([&] { resolve_schedule(r); });
  };
  EXPECT_EQ(refused("1f1b", {1, 1}, {0, 1}),
            "1f1b has no update lag: update-lag of stage 1 is 1, wanted 0; only pipedream may have one");
  for (const char* name : {"model-parallel", "gpipe", "2bw", "pipedream-vertical-sync", "pipedream-naive"})
    EXPECT_NE(refused(name, {1, 1}, {1}).find("has no update lag"), std::string::npos) << name;
  EXPECT_EQ(refused("1f1b", {1, 1}, {0, 0}), "");
  EXPECT_EQ(refused("pipedream", {1, 1}, {1, 2, 3}),
            "update-lag has 3 counts for 2 stages, wanted one for all or one per stage");
  EXPECT_EQ(refused("pipedream", {1, 1}, {0, -1}), "update-lag of stage 1 is -1, wanted 0 to 1000000");
}

TEST(UpdateLag, IsReadAsOneNumberOrAList) {
  EXPECT_EQ(parse_update_lag("2"), (counts{2}));
  EXPECT_EQ(parse_update_lag("1,0,3"), (counts{1, 0, 3}));
  const auto refused = [](const char* text) { return refusal_of([&] { parse_update_lag(text); }); };
  for (const char* text : {"", "x", "1,", ",1", "1.5", "1 ", "99999999999999999999"})
    EXPECT_EQ(refused(text),
              "update-lag '" + std::string(text) + "': wanted a number of updates, or one per stage such as 1,0");
  EXPECT_EQ(refused("-1"), "update-lag of stage 0 is -1, wanted 0 to 1000000");
  EXPECT_EQ(refused("0,1000001"), "update-lag of stage 1 is 1000001, wanted 0 to 1000000");
}

} // namespace
} // namespace penstock::planner::testing
