// What holds for every schedule, checked on thousands of random requests against closed forms of DESIGN section 2.
#include "planner/check_schedule.hpp"
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace penstock::planner::testing {
namespace {

/// The version that DESIGN section 2 gives to the forward of minibatch b, item `local` of its replica.
std::int64_t version_by_rule(const schedule& s, const stage_schedule& stage, std::int64_t b, std::int64_t local) {
  if (s.name == "2bw") return std::max<std::int64_t>(b - 1, 0);
  if (!s.updates.per_minibatch_group) return b;
  const auto credit = s.name == "pipedream-vertical-sync" ? s.first_active().credit : stage.credit;
  return std::max<std::int64_t>(0, local - (credit - 1) - stage.update_lag);
}

void expect_list_follows_the_rules(const schedule& s, int stage_number, int replica) {
  const auto& stage = s.stages[static_cast<std::size_t>(stage_number)];
  std::vector<std::pair<std::int64_t, std::int32_t>> dealt;
  for (std::int64_t b = 0; b < s.minibatches; ++b)
    for (int m = 0; m < s.microbatches; ++m)
      if ((b * s.microbatches + m) % stage.replicas == replica) dealt.emplace_back(b, m);
  std::size_t forwards = 0, backwards = 0, weights = 0;
  std::int64_t updates = 0;
  if (stage_number < s.frozen_stages) {
    for (const auto& a : list_of(s, stage_number, replica)) {
      ASSERT_LT(forwards, dealt.size());
      const auto [minibatch, microbatch] = dealt[forwards++];
      ASSERT_EQ(a, (action{action_kind::forward, minibatch, microbatch, 0, stage_number}));
    }
    ASSERT_EQ(forwards, dealt.size());
    return;
  }
  for (const auto& a : list_of(s, stage_number, replica)) {
    if (a.kind == action_kind::update) {
      ASSERT_EQ(a.minibatch, updates);
      ASSERT_EQ(a.version, ++updates);
      if (s.name == "pipedream") {
        ASSERT_EQ(backwards, std::min(dealt.size(), static_cast<std::size_t>(updates + stage.update_lag))) << "rule 6";
      }
      continue;
    }
    if (a.kind == action_kind::backward_weight) {
      ASSERT_LT(weights, backwards);
      ASSERT_EQ(std::make_pair(a.minibatch, a.microbatch), dealt[weights++]) << "gradients are summed in their order";
      ASSERT_EQ(a.version, a.minibatch);
      continue;
    }
    ASSERT_LE(static_cast<std::int64_t>(backwards - weights), stage.delayed_weight_gradients);
    if (a.kind == action_kind::backward) ++weights;
    const bool is_forward = a.kind == action_kind::forward;
    auto& done = is_forward ? forwards : backwards;
    ASSERT_LT(done, dealt.size());
    ASSERT_EQ(std::make_pair(a.minibatch, a.microbatch), dealt[done])
        << "neither passes one of its kind, none is skipped";
    const auto local = static_cast<std::int64_t>(done++);
    ASSERT_LE(static_cast<std::int64_t>(forwards) - static_cast<std::int64_t>(backwards), stage.credit);
    if (is_forward || s.stashes_weights) {
      ASSERT_EQ(a.version, version_by_rule(s, stage, a.minibatch, local));
    }
    if ((is_forward && s.name != "pipedream-vertical-sync") || (!is_forward && !s.stashes_weights)) {
      ASSERT_EQ(a.version, updates) << "rule 1";
    }
  }
  ASSERT_EQ(forwards, dealt.size());
  ASSERT_EQ(backwards, dealt.size());
  ASSERT_EQ(weights, dealt.size());
  const auto group = s.updates.per_minibatch_group ? stage.replicas : 1;
  ASSERT_EQ(updates, (s.minibatches + group - 1) / group);
}

TEST(ScheduleProperties, EveryListFollowsTheRulesAndTheCheckerPasses) {
  dice d(1);
  for (int i = 0; i < 6000; ++i) {
    const auto r = random_request(d);
    SCOPED_TRACE(show(r));
    const auto s = resolve_schedule(r);
    ASSERT_EQ(check_schedule(s).value_or(""), "");
    for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
      for (int replica = 0; replica < s.stages[stage].replicas; ++replica) {
        expect_list_follows_the_rules(s, static_cast<int>(stage), replica);
        ASSERT_FALSE(HasFatalFailure());
      }
  }
}

/// Is the action of minibatch `limit` or later? An update is of the first minibatch that it holds.
bool is_beyond(const schedule& s, const stage_schedule& stage, const action& a, std::int64_t limit) {
  const auto group = a.kind == action_kind::update && s.updates.per_minibatch_group ? stage.replicas : 1;
  return a.minibatch * group >= limit;
}

TEST(ScheduleProperties, FewerMinibatchesGiveAPrefix) {
  dice d(2);
  for (int i = 0; i < 3000; ++i) {
    auto r = random_request(d);
    SCOPED_TRACE(show(r));
    const auto longer = resolve_schedule(r);
    r.minibatches = d.between(0, static_cast<int>(r.minibatches));
    const auto shorter = resolve_schedule(r);
    for (std::size_t s = 0; s < longer.stages.size(); ++s)
      for (int replica = 0; replica < longer.stages[s].replicas; ++replica) {
        const auto full = list_of(longer, static_cast<int>(s), replica);
        const auto part = list_of(shorter, static_cast<int>(s), replica);
        const auto beyond = std::find_if(full.begin(), full.end(), [&](const action& a) {
          return is_beyond(longer, longer.stages[s], a, r.minibatches);
        });
        ASSERT_LE(beyond - full.begin(), static_cast<std::ptrdiff_t>(part.size())) << "T " << r.minibatches;
        ASSERT_TRUE(std::equal(full.begin(), beyond, part.begin())) << "T " << r.minibatches;
      }
  }
}

/// Versions are what they are whenever the actions run: the newest one at each read, by the simulator's clock.
void expect_reads_are_within_the_table(const schedule& s, const simulation& run) {
  std::map<int, std::vector<std::vector<double>>> ends; // by stage and replica, of each update
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    ends[static_cast<int>(i)].resize(static_cast<std::size_t>(s.stages[i].replicas));
  for (const auto& span : run.spans)
    if (span.what.kind == action_kind::update)
      ends[span.stage][static_cast<std::size_t>(span.replica)].push_back(span.end);
  for (const auto& span : run.spans) {
    if (span.what.kind == action_kind::update) continue;
    std::int64_t newest = s.minibatches;
    for (const auto& replica : ends[span.stage])
      newest = std::min<std::int64_t>(newest,
                                      std::upper_bound(replica.begin(), replica.end(), span.begin) - replica.begin());
    const auto& stage = s.stages[static_cast<std::size_t>(span.stage)];
    ASSERT_LE(span.what.version, newest) << "a version is read before it is written";
    const bool may_lag = !s.stashes_weights && s.window > 0; // an update may pass a forward that waits
    if (!may_lag) {
      ASSERT_LE(newest - span.what.version + 1, stage.readable_versions);
    }
    const bool has_older = s.name == "pipedream-vertical-sync" || stage.update_lag > 0;
    if (span.what.kind == action_kind::forward && !has_older && s.window == 0) {
      ASSERT_EQ(span.what.version, newest);
    }
  }
}

/// What the source has admitted and the first active stage has not given back.
void expect_source_keeps_its_credit(const schedule& s, const simulation& run) {
  std::vector<double> taken, given_back;
  for (const auto& span : run.spans) {
    if (span.stage == 0 && span.what.kind == action_kind::forward) taken.push_back(span.begin);
    if (span.stage == s.frozen_stages && ends_flight(span.what.kind)) given_back.push_back(span.end);
  }
  std::sort(given_back.begin(), given_back.end());
  for (std::size_t i = static_cast<std::size_t>(s.source_credit()); i < taken.size(); ++i)
    ASSERT_GE(taken[i], given_back[i - static_cast<std::size_t>(s.source_credit())]) << "forward " << i;
}

TEST(ScheduleProperties, CreditsAndVersionsHoldWhateverTheTimes) {
  dice d(3);
  for (int i = 0; i < 2000; ++i) {
    const auto r = random_request(d);
    SCOPED_TRACE(show(r));
    const auto s = resolve_schedule(r);
    std::vector<stage_times> times(s.stages.size());
    for (auto& t : times)
      t = {d.time(), d.time(), d.time(), d.time(), d.time()};
    const auto run = simulate(s, times);
    std::size_t actions = 0;
    for (std::size_t stage = 0; stage < s.stages.size(); ++stage) {
      ASSERT_LE(run.peak_in_flight[stage], s.stages[stage].credit);
      for (int replica = 0; replica < s.stages[stage].replicas; ++replica)
        actions += list_of(s, static_cast<int>(stage), replica).size();
    }
    ASSERT_EQ(run.spans.size(), actions);
    expect_reads_are_within_the_table(s, run);
    expect_source_keeps_its_credit(s, run);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST(ScheduleProperties, TwoBuffersHoldFromTheLeastMicrobatchesOn) {
  // One micro-batch fewer than the least is refused; the least itself is what the random requests above often use.
  dice d(4);
  for (int i = 0; i < 500; ++i) {
    auto r = random_request(d);
    r.name = "2bw";
    r.chunks = 1;
    r.in_flight = {};
    r.update_lag = {};
    r.frozen_stages = 0;
    r.ahead = 0;
    r.microbatches = 0;
    const auto least = resolve_schedule(r).microbatches;
    if (least == 1) continue;
    r.microbatches = least - 1;
    EXPECT_NE(refusal_of([&] { resolve_schedule(r); }).find("at least " + std::to_string(least)), std::string::npos);
  }
}

} // namespace
} // namespace penstock::planner::testing
