// Every kind of fault, made by hand in a good schedule, is found and named.
#include "planner/check_schedule.hpp"
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::planner::testing {
namespace {

/// A schedule with its orders written out, to be made wrong by hand.
struct written : schedule {
  explicit written(schedule s) : schedule(std::move(s)), workers(workers_of(*this)) {
    for (const auto& w : workers)
      lists.push_back(write_out(sequence(*this, w)));
  }
  std::vector<worker> workers;
  std::vector<std::vector<action>> lists;
};

std::string fault_of(const schedule& s) {
  return check_schedule(s).value_or("");
}

std::string fault_of(const written& s) {
  std::vector<sequence> orders;
  for (std::size_t i = 0; i < s.lists.size(); ++i) {
    auto list = s.lists[i];
    for (auto& a : list)
      a.stage = s.workers[i].position;
    orders.emplace_back(s, std::move(list));
  }
  return check_schedule(s, orders).value_or("");
}

std::vector<action>& list_of(written& s, int stage, int replica = 0) {
  const auto at = std::find(s.workers.begin(), s.workers.end(), worker{stage, replica});
  return s.lists[static_cast<std::size_t>(at - s.workers.begin())];
}

action forward(std::int64_t minibatch, std::int64_t version = 0, std::int32_t microbatch = 0) {
  return {action_kind::forward, minibatch, microbatch, version};
}
action backward(std::int64_t minibatch, std::int64_t version = 0, std::int32_t microbatch = 0) {
  return {action_kind::backward, minibatch, microbatch, version};
}
action update(std::int64_t group) {
  return {action_kind::update, group, 0, group + 1};
}

/// Lists: "F0 F1 B0 U0 F2@1 B1 U1 B2@1 U2" and "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2".
written two_stages() {
  return written(resolve_schedule(request("pipedream", {1, 1}, 1, 3)));
}

TEST(CheckSchedule, PassesWhatTheGeneratorMakes) {
  for (const auto& name : schedule_names())
    EXPECT_EQ(fault_of(resolve_schedule(request(name, {2}, 1, 5))), "") << name;
  EXPECT_EQ(fault_of(two_stages()), "");
}

TEST(CheckSchedule, FindsAMissingForward) {
  auto s = two_stages();
  list_of(s, 1) = {forward(0), backward(0), update(0), forward(1, 1), backward(1, 1), update(1), update(2)};
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: forward of minibatch 2 micro-batch 0 is missing");
}

TEST(CheckSchedule, FindsAMissingBackward) {
  auto s = written(resolve_schedule(request("1f1b", {1, 1}, 2, 1)));
  auto& list = list_of(s, 0);
  list.erase(std::find(list.begin(), list.end(), backward(0, 0, 1)));
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: backward of minibatch 0 micro-batch 1 is missing");
}

TEST(CheckSchedule, FindsAForwardOrBackwardThatIsThereTwice) {
  auto s = two_stages();
  list_of(s, 1).insert(list_of(s, 1).begin() + 3, forward(0));
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: forward of minibatch 0 micro-batch 0 is there twice");
  s = two_stages();
  list_of(s, 1).insert(list_of(s, 1).begin() + 2, backward(0));
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: backward of minibatch 0 micro-batch 0 is there twice");
}

TEST(CheckSchedule, FindsABackwardBeforeItsForward) {
  auto s = two_stages();
  std::swap(list_of(s, 1)[0], list_of(s, 1)[1]);
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: backward of minibatch 0 micro-batch 0 comes before its forward");
}

TEST(CheckSchedule, FindsACreditExceeded) {
  auto s = two_stages();
  s.stages[0].credit = 1;
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: forward of minibatch 1 micro-batch 0 holds 2 in flight, wanted at most "
                         "the credit 1");
}

TEST(CheckSchedule, FindsAVersionThatNoUpdateWrites) {
  auto s = two_stages();
  list_of(s, 0)[4].version = 2;
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: forward of minibatch 2 micro-batch 0 reads version 2, which no update "
                         "before it writes");
  list_of(s, 0)[4].version = -1;
  EXPECT_NE(fault_of(s).find("reads version -1"), std::string::npos);
}

TEST(CheckSchedule, FindsABackwardThatReadsAnotherVersionUnlessTheScheduleSaysSo) {
  auto s = two_stages();
  list_of(s, 0)[5].version = 1;
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: backward of minibatch 1 micro-batch 0 reads version 1, its forward read "
                         "version 0");
  s.stashes_weights = false;
  EXPECT_EQ(fault_of(s), "");
}

TEST(CheckSchedule, FindsMoreReadableVersionsThanStated) {
  auto s = two_stages();
  s.stages[0].readable_versions = 1;
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: backward of minibatch 1 micro-batch 0 reads version 0 of 2 readable "
                         "versions, wanted at most 1");
}

TEST(CheckSchedule, FindsUpdatesThatDifferBetweenReplicas) {
  auto s = written(resolve_schedule(request("pipedream", {2, 1}, 1, 5)));
  list_of(s, 0, 1).pop_back();
  EXPECT_EQ(fault_of(s), "stage 0 replica 1 ends after 2 updates, wanted 3 on every replica");
  s = written(resolve_schedule(request("pipedream", {2, 1}, 1, 5)));
  list_of(s, 0, 1).back() = update(3);
  EXPECT_EQ(fault_of(s),
            "stage 0 replica 1: update 3 where update 2 was due; wanted 3 updates in turn on every replica");
  list_of(s, 0, 1).back() = update(2);
  list_of(s, 0, 1).push_back(update(3));
  EXPECT_EQ(fault_of(s), "stage 0 replica 1: update 3 is one too many, wanted 3 updates in turn on every replica");
  s = two_stages();
  list_of(s, 0)[3].version = 7;
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: update 0 writes version 7, wanted 1");
}

TEST(CheckSchedule, FindsAnUpdateBeforeItsGradient) {
  auto s = two_stages();
  std::swap(list_of(s, 1)[1], list_of(s, 1)[2]);
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: backward of minibatch 0 micro-batch 0 comes after update 0, which needs "
                         "its gradient");
}

TEST(CheckSchedule, FindsWorkOnTheWrongReplicaOrOutOfRange) {
  auto s = written(resolve_schedule(request("1f1b", {2}, 2, 1)));
  std::swap(list_of(s, 0, 0), list_of(s, 0, 1));
  EXPECT_EQ(fault_of(s), "stage 0 replica 0: forward of minibatch 0 micro-batch 1 belongs to replica 1");
  s = two_stages();
  list_of(s, 1)[0].minibatch = 3;
  EXPECT_EQ(fault_of(s), "stage 1 replica 0: forward of minibatch 3 micro-batch 0 does not exist among 3 minibatches "
                         "of 1 micro-batch");
  s = two_stages();
}

TEST(CheckSchedule, TakesASplitBackwardForAWholeOne) {
  const auto input_part = [](std::int64_t minibatch, std::int64_t version = 0) {
    return action{action_kind::backward_input, minibatch, 0, version};
  };
  const auto weight_part = [](std::int64_t minibatch, std::int64_t version = 0) {
    return action{action_kind::backward_weight, minibatch, 0, version};
  };
  auto s = two_stages();
  list_of(s, 1) = {forward(0),    input_part(0),    weight_part(0),    update(0),
                   forward(1, 1), input_part(1, 1), weight_part(1, 1), update(1),
                   forward(2, 2), input_part(2, 2), weight_part(2, 2), update(2)};
  EXPECT_EQ(fault_of(s), "");
  auto broken = s;
  std::swap(list_of(broken, 1)[1], list_of(broken, 1)[2]);
  EXPECT_EQ(fault_of(broken), "stage 1 replica 0: backward_weight of minibatch 0 micro-batch 0 comes before its "
                              "backward_input");
  broken = s;
  std::swap(list_of(broken, 1)[2], list_of(broken, 1)[3]);
  EXPECT_EQ(fault_of(broken), "stage 1 replica 0: backward_weight of minibatch 0 micro-batch 0 comes after update 0, "
                              "which needs its gradient");
  broken = s;
  list_of(broken, 1).insert(list_of(broken, 1).begin() + 11, input_part(2, 2));
  EXPECT_EQ(fault_of(broken), "stage 1 replica 0: backward_input of minibatch 2 micro-batch 0 is there twice");
  broken = s;
  list_of(broken, 1).erase(list_of(broken, 1).begin() + 10);
  EXPECT_EQ(fault_of(broken), "stage 1 replica 0: backward_weight of minibatch 2 micro-batch 0 is missing");
  broken = s;
  list_of(broken, 1) = {forward(0),    input_part(0),    forward(1, 0),     weight_part(0),
                        update(0),     input_part(1),    weight_part(1),    update(1),
                        forward(2, 2), input_part(2, 2), weight_part(2, 2), update(2)};
  EXPECT_EQ(fault_of(broken), "stage 1 replica 0: forward of minibatch 1 micro-batch 0 leaves 1 weight gradient to "
                              "come, wanted at most 0");
}

TEST(CheckSchedule, FindsWorkOfAStageThatIsElsewhere) {
  const auto s = resolve_schedule(request("1f1b", {1, 1}, 1, 1));
  auto orders = sequences_of(s);
  std::swap(orders[0], orders[1]);
  EXPECT_EQ(check_schedule(s, orders), "stage 0 replica 0: forward of minibatch 0 micro-batch 0 is of stage 1, which "
                                       "it does not host");
}

TEST(CheckSchedule, FindsBrokenShapes) {
  EXPECT_EQ(fault_of(schedule{}), "the schedule has no stages");
  auto s = two_stages();
  s.lists.pop_back();
  EXPECT_EQ(fault_of(s), "the schedule has 1 sequence for 2 workers");
  s = two_stages();
  s.stages[1].credit = 0;
  EXPECT_EQ(fault_of(s), "stage 1 has credit 0, wanted at least 1");
  s = two_stages();
  s.stages[1].replicas = 0;
  EXPECT_EQ(fault_of(s), "stage 1 has no replica");
  s = two_stages();
  s.microbatches = 0;
  EXPECT_EQ(fault_of(s), "the schedule has 3 minibatches of 0 micro-batches and window 0");
}

TEST(CheckSchedule, NamesTheCycleOfADeadlock) {
  auto s = written(resolve_schedule(request("pipedream", {1, 1}, 1, 2, "1,1")));
  s.stages[1].credit = s.stages[1].readable_versions = 2;
  list_of(s, 1) = {forward(0), forward(1), backward(0), update(0), backward(1), update(1)};
  EXPECT_EQ(fault_of(s), "the schedule deadlocks: stage 0 replica 0 at backward of minibatch 0 micro-batch 0 waits for "
                         "its gradient from stage 1 replica 0; stage 1 replica 0 at forward of minibatch 1 micro-batch "
                         "0 waits for its input from stage 0 replica 0");
}

TEST(CheckSchedule, KnowsTheSourcesCredit) {
  auto s = written(resolve_schedule(request("1f1b", {2}, 4, 1)));
  list_of(s, 0, 0) = {forward(0, 0, 2), backward(0, 0, 2), forward(0, 0, 0), backward(0, 0, 0), update(0)};
  list_of(s, 0, 1) = {forward(0, 0, 3), backward(0, 0, 3), forward(0, 0, 1), backward(0, 0, 1), update(0)};
  EXPECT_EQ(fault_of(s), "the schedule deadlocks: stage 0 replica 0 at forward of minibatch 0 micro-batch 2 waits for "
                         "a credit of the source from stage 0 replica 0");
}

TEST(CheckSchedule, WalksALongRunQuickly) {
  const auto s = resolve_schedule(request("pipedream", {1, 1, 2, 1, 1}, 1, 200'000));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(walk_schedule(s, sequences_of(s)), std::nullopt);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 20); // about 0.1 s; far above it only if the work stops being linear
}

} // namespace
} // namespace penstock::planner::testing
