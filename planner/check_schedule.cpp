// First every stage by itself, then all of them together: what is wrong with a schedule, in one line.
#include "planner/check_schedule.hpp"

#include "planner/check_stage.hpp"
#include "planner/playback.hpp"

#include <algorithm>

namespace penstock::planner {

namespace {

using fault = std::optional<std::string>;

fault check_counts(const schedule& s) {
  if (s.stages.empty()) return "the schedule has no stages";
  if (s.microbatches < 1 || s.minibatches < 0 || s.window < 0)
    return "the schedule has " + count_of(s.minibatches, "minibatch") + " of " +
           count_of(s.microbatches, "micro-batch") + " and window " + std::to_string(s.window);
  if (s.chunks < 1 || s.stages.size() % static_cast<std::size_t>(s.chunks) != 0)
    return "the schedule has " + count_of(static_cast<std::int64_t>(s.stages.size()), "stage") + " in " +
           count_of(s.chunks, "chunk") + " a worker";
  if (s.frozen_stages < 0 || static_cast<std::size_t>(s.frozen_stages) >= s.stages.size() || s.ahead < 0)
    return "the schedule has " + count_of(s.frozen_stages, "frozen stage") + " of " + std::to_string(s.stages.size()) +
           " and lets the source be " + std::to_string(s.ahead) + " ahead";
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto first = static_cast<std::size_t>(position_of(s, static_cast<int>(i)));
    if (s.stages[i].replicas != s.stages[first].replicas)
      return "stage " + std::to_string(i) + " has " + count_of(s.stages[i].replicas, "replica") + ", stage " +
             std::to_string(first) + " of the same workers has " + std::to_string(s.stages[first].replicas);
    if (s.stages[i].replicas < 1) return "stage " + std::to_string(i) + " has no replica";
    if (s.stages[i].credit < 1)
      return "stage " + std::to_string(i) + " has credit " + std::to_string(s.stages[i].credit) + ", wanted at least 1";
    if (s.stages[i].delayed_weight_gradients < 0)
      return "stage " + std::to_string(i) + " may delay " + std::to_string(s.stages[i].delayed_weight_gradients) +
             " weight gradients, wanted at least 0";
  }
  return {};
}

bool hosts(const schedule& s, int position, int stage) {
  return stage >= 0 && static_cast<std::size_t>(stage) < s.stages.size() && position_of(s, stage) == position;
}

fault check_replica(const schedule& s, stage_checker& checker, int stage, int replica, sequence order) {
  while (const auto a = order.next()) {
    if (!hosts(s, position_of(s, stage), a->stage))
      return describe_place(stage, replica) + ": " + describe(*a) + " is of stage " + std::to_string(a->stage) +
             ", which it does not host";
    if (a->stage != stage) continue;
    if (auto f = checker.check(replica, *a)) return f;
  }
  return checker.check_end(replica);
}

fault check_stage(const schedule& s, int stage, const std::vector<sequence>& orders) {
  stage_checker checker(s, stage);
  const auto workers = workers_of(s);
  for (std::size_t w = 0; w < workers.size(); ++w)
    if (workers[w].position == position_of(s, stage))
      if (auto f = check_replica(s, checker, stage, workers[w].replica, orders[w])) return f;
  return checker.check_nothing_is_missing();
}

/// Follows the waits from one stuck lane until they close.
std::string wait_cycle(const playback& state, int lane) {
  std::vector<int> path;
  while (std::find(path.begin(), path.end(), lane) == path.end()) {
    path.push_back(lane);
    lane = state.blocked_by(lane).lane;
    if (!state.head(lane)) break;
  }
  const auto start = std::find(path.begin(), path.end(), lane);
  if (start != path.end()) path.erase(path.begin(), start);
  const auto place = [&](int of_lane) {
    const auto& head = state.head(of_lane);
    return describe_place(head ? head->stage : state.position(of_lane), state.replica(of_lane));
  };
  std::string text = "the schedule deadlocks: ";
  for (const auto waiting : path) {
    const auto cause = state.blocked_by(waiting);
    text += place(waiting) + " at " + describe(*state.head(waiting)) + " waits for " + cause.reason + " from " +
            place(cause.lane) + "; ";
  }
  return text.substr(0, text.size() - 2);
}

/// Starts and ends everything that can be until nothing moves; `look` sees each action when it has started, and stops
/// it all by saying false. Every wait is for something that only ever becomes true, so any order of running finds the
/// same end.
template <class Look>
bool run_until_quiet(playback& state, Look look) {
  std::vector<int> ready;
  for (state.take_woken(ready); !ready.empty(); state.take_woken(ready))
    for (const auto lane : ready)
      while (const auto a = state.start_next(lane)) {
        if (!look(lane, *a)) return false;
        if (a->kind == action_kind::forward) state.deliver_activation(*a);
        if (ends_flight(a->kind)) state.deliver_gradient(*a);
        if (a->kind == action_kind::update) state.finish_update(a->stage, state.replica(lane));
      }
  return true;
}

/// Sequences that run in their exact order run with any window: of what is left, the action that comes first in the
/// exact order is at its sequence's head with all it needs, since nothing later of its kind can have gone before it.
fault check_it_runs(const schedule& s, const std::vector<sequence>& orders) {
  playback state(s, 0, orders);
  run_until_quiet(state, [](int /*lane*/, const action& /*a*/) { return true; });
  for (int lane = 0; lane < state.lanes(); ++lane)
    if (state.head(lane)) return wait_cycle(state, lane);
  return {};
}

fault check_shape(const schedule& s, const std::vector<sequence>& orders) {
  if (auto f = check_counts(s)) return f;
  const auto workers = workers_of(s).size();
  if (orders.size() == workers) return {};
  return "the schedule has " + count_of(static_cast<std::int64_t>(orders.size()), "sequence") + " for " +
         count_of(static_cast<std::int64_t>(workers), "worker");
}

} // namespace

fault walk_schedule(const schedule& s, const std::vector<sequence>& orders) {
  if (auto f = check_shape(s, orders)) return f;
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
    if (auto f = check_stage(s, static_cast<int>(stage), orders)) return f;
  return check_it_runs(s, orders);
}

/// The proof. Let P be the dealing period, and Q(n) all that decides what the run does next and what the checker finds
/// wrong with it (places in the orders, messages, versions, credits, what each micro-batch has seen), but for the end,
/// when the source has admitted nP minibatches and nothing moves any more; it does not depend on the order of running.
/// Minibatches in it count from nP. Dealing, and all rules, are the same P minibatches later.
///
/// Say Q(n - 1) = Q(n), and no fault was found on the way. A run of T minibatches goes on from Q(n) with T - nP
/// minibatches left as one of T - P minibatches goes on from Q(n - 1): it runs into the same faults, P minibatches
/// later, or into none. The shorter run gets to Q(n - 1) as the longer one did, without a fault, since what lies so far
/// before its end does not depend on the end: every worker has a forward in each period, so at Q(n) none has come to a
/// forward of minibatch (n + 1) P or beyond, and orders are prefix-stable (generator). So for every T of at least
/// (n + 2) P, runs of T and of T - P minibatches are both right or both wrong. By induction T may be the least that
/// leaves the same remainder.
std::optional<std::int64_t> equivalent_minibatches(const schedule& s, const std::vector<sequence>& orders) {
  if (check_shape(s, orders)) return {};
  const auto period = dealing_period(s);
  if (period == 0) return {};
  const auto most = s.minibatches / period / 4; // beyond it the walk is not worth its while
  if (most < 4) return {};
  std::vector<std::int64_t> before, now;
  if (!std::all_of(orders.begin(), orders.end(), [&](const sequence& o) { return o.append_state(0, now); })) return {};
  playback state(s, 0, orders);
  std::vector<stage_checker> stages;
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
    stages.emplace_back(s, static_cast<int>(stage));
  const auto look = [&](int lane, const action& a) {
    return !stages[static_cast<std::size_t>(a.stage)].check(state.replica(lane), a);
  };
  state.hold_source_at(0);
  for (std::int64_t n = 1; n <= most; ++n) {
    state.hold_source_at(n * period);
    if (!run_until_quiet(state, look)) return {};
    now.clear();
    if (!state.append_state(n * period, now)) return {};
    for (const auto& stage : stages)
      stage.append_state(n * period, now);
    if (now == before) {
      const auto least = (n + 2) * period;
      return least + (s.minibatches - least) % period;
    }
    before.swap(now);
  }
  return {};
}

fault check_schedule(const schedule& s, const std::vector<sequence>& orders) {
  if (auto f = check_shape(s, orders)) return f;
  if (const auto fewer = equivalent_minibatches(s, orders)) {
    auto shorter = s;
    shorter.minibatches = *fewer;
    auto cut = orders;
    for (auto& order : cut)
      order.end_after(*fewer);
    if (!walk_schedule(shorter, cut)) return {};
  }
  return walk_schedule(s, orders); // where there is a fault, it names the one that this run comes to
}

fault check_schedule(const schedule& s) {
  if (auto f = check_counts(s)) return f;
  return check_schedule(s, sequences_of(s));
}

} // namespace penstock::planner
