// First every list by itself, then all of them together: what is wrong with a schedule, in one line.
#include "planner/check_schedule.hpp"

#include "planner/playback.hpp"

#include <algorithm>

namespace penstock::planner {

namespace {

using fault = std::optional<std::string>;

std::string count_of(std::int64_t n, const std::string& noun) {
  if (n == 1) return "1 " + noun;
  return std::to_string(n) + " " + noun + (noun.ends_with("ch") ? "es" : "s");
}

/// Walks the lists of one stage: everything that can be said without the other stages.
class stage_checker {
public:
  stage_checker(const schedule& s, int stage)
      : schedule_(s), number_(stage), stage_(s.stages[static_cast<std::size_t>(stage)]),
        progress_(static_cast<std::size_t>(s.minibatches * s.microbatches)), versions_(progress_.size()) {
    const auto group = s.updates.per_minibatch_group ? stage_.replicas : 1;
    updates_wanted_ = (s.minibatches + group - 1) / group;
  }

  fault run() {
    if (stage_.credit < 1)
      return "stage " + std::to_string(number_) + " has credit " + std::to_string(stage_.credit) +
             ", wanted at least 1";
    if (stage_.lists.size() != static_cast<std::size_t>(stage_.replicas))
      return "stage " + std::to_string(number_) + " has " +
             count_of(static_cast<std::int64_t>(stage_.lists.size()), "list") + " for " +
             count_of(stage_.replicas, "replica");
    for (replica_ = 0; replica_ < stage_.replicas; ++replica_)
      if (auto f = check_list(stage_.lists[static_cast<std::size_t>(replica_)].actions)) return f;
    return check_nothing_is_missing();
  }

private:
  enum class step : std::uint8_t { none, forward, backward };

  std::string here(const action& a) const { return describe_place(number_, replica_) + ": " + describe(a); }
  std::size_t index(const action& a) const {
    return static_cast<std::size_t>(a.minibatch * schedule_.microbatches + a.microbatch);
  }

  fault check_list(const std::vector<action>& actions) {
    held_ = updates_ = 0;
    for (const auto& a : actions)
      if (auto f = check_action(a)) return f;
    if (updates_ != updates_wanted_)
      return describe_place(number_, replica_) + " ends after " + count_of(updates_, "update") + ", wanted " +
             std::to_string(updates_wanted_) + " on every replica";
    return {};
  }

  fault check_action(const action& a) {
    switch (a.kind) {
    case action_kind::update:
      return check_update(a);
    case action_kind::forward:
    case action_kind::backward:
      break;
    default:
      return here(a) + ": split backwards are not supported";
    }
    if (a.minibatch < 0 || a.minibatch >= schedule_.minibatches || a.microbatch < 0 ||
        a.microbatch >= schedule_.microbatches)
      return here(a) + " does not exist among " + count_of(schedule_.minibatches, "minibatch") + " of " +
             count_of(schedule_.microbatches, "micro-batch");
    if (const auto owner = replica_of(schedule_, number_, a.minibatch, a.microbatch); owner != replica_)
      return here(a) + " belongs to replica " + std::to_string(owner);
    return a.kind == action_kind::forward ? check_forward(a) : check_backward(a);
  }

  fault check_version_is_written(const action& a) const {
    if (a.version >= 0 && a.version <= updates_) return {};
    return here(a) + " reads version " + std::to_string(a.version) + ", which no update before it writes";
  }

  fault check_forward(const action& a) {
    auto& progress = progress_[index(a)];
    if (progress != step::none) return here(a) + " is there twice";
    if (++held_ > stage_.credit)
      return here(a) + " holds " + std::to_string(held_) + " in flight, wanted at most the credit " +
             std::to_string(stage_.credit);
    progress = step::forward;
    versions_[index(a)] = a.version;
    return check_version_is_written(a);
  }

  fault check_backward(const action& a) {
    auto& progress = progress_[index(a)];
    if (progress == step::none) return here(a) + " comes before its forward";
    if (progress == step::backward) return here(a) + " is there twice";
    progress = step::backward;
    --held_;
    const auto group = schedule_.updates.per_minibatch_group ? stage_.replicas : 1;
    if (a.minibatch / group < updates_)
      return here(a) + " comes after update " + std::to_string(a.minibatch / group) + ", which needs its gradient";
    if (!schedule_.stashes_weights) return check_version_is_written(a);
    if (a.version != versions_[index(a)])
      return here(a) + " reads version " + std::to_string(a.version) + ", its forward read version " +
             std::to_string(versions_[index(a)]);
    if (const auto readable = updates_ - a.version + 1; readable > stage_.readable_versions)
      return here(a) + " reads version " + std::to_string(a.version) + " of " + count_of(readable, "readable version") +
             ", wanted at most " + std::to_string(stage_.readable_versions);
    return {};
  }

  fault check_update(const action& a) {
    if (a.minibatch != updates_ || updates_ == updates_wanted_)
      return here(a) +
             (updates_ == updates_wanted_ ? " is one too many, wanted "
                                          : " where update " + std::to_string(updates_) + " was due; wanted ") +
             count_of(updates_wanted_, "update") + " in turn on every replica";
    if (a.version != ++updates_)
      return here(a) + " writes version " + std::to_string(a.version) + ", wanted " + std::to_string(updates_);
    return {};
  }

  fault check_nothing_is_missing() const {
    const auto found = std::find_if(progress_.begin(), progress_.end(), [](step p) { return p != step::backward; });
    if (found == progress_.end()) return {};
    const auto running = found - progress_.begin();
    const auto kind = *found == step::none ? action_kind::forward : action_kind::backward;
    const action a{kind, running / schedule_.microbatches, static_cast<std::int32_t>(running % schedule_.microbatches),
                   0};
    return describe_place(number_, replica_of(schedule_, number_, a.minibatch, a.microbatch)) + ": " + describe(a) +
           " is missing";
  }

  const schedule& schedule_;
  int number_;
  const stage_schedule& stage_;
  int replica_ = 0;
  std::int64_t held_ = 0, updates_ = 0, updates_wanted_ = 0;
  std::vector<step> progress_;
  std::vector<std::int64_t> versions_;
};

fault check_counts(const schedule& s) {
  if (s.stages.empty()) return "the schedule has no stages";
  if (s.microbatches < 1 || s.minibatches < 0 || s.window < 0)
    return "the schedule has " + count_of(s.minibatches, "minibatch") + " of " +
           count_of(s.microbatches, "micro-batch") + " and window " + std::to_string(s.window);
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    if (s.stages[i].replicas < 1) return "stage " + std::to_string(i) + " has no replica";
  return {};
}

/// Follows the waits from one stuck lane until they close.
std::string wait_cycle(const playback& state, int lane) {
  std::vector<int> path;
  while (std::find(path.begin(), path.end(), lane) == path.end()) {
    path.push_back(lane);
    lane = state.blocked_by(lane).lane;
    if (state.head(lane) == nullptr) break;
  }
  const auto start = std::find(path.begin(), path.end(), lane);
  if (start != path.end()) path.erase(path.begin(), start);
  std::string text = "the schedule deadlocks: ";
  for (const auto waiting : path) {
    const auto cause = state.blocked_by(waiting);
    text += describe_place(state.stage(waiting), state.replica(waiting)) + " at " + describe(*state.head(waiting)) +
            " waits for " + cause.reason + " from " +
            describe_place(state.stage(cause.lane), state.replica(cause.lane)) + "; ";
  }
  return text.substr(0, text.size() - 2);
}

/// Every wait is for something that only ever becomes true, so any order of running finds the same end. Lists that run
/// in their exact order run with any window: of what is left, the action that comes first in the exact order is at its
/// list's head with all it needs, since nothing later of its kind can have gone before it.
fault check_it_runs(const schedule& s) {
  playback state(s, 0);
  std::vector<int> ready;
  for (state.take_woken(ready); !ready.empty(); state.take_woken(ready))
    for (const auto lane : ready)
      while (const auto* a = state.start_next(lane)) {
        if (a->kind == action_kind::forward) state.deliver_activation(state.stage(lane), *a);
        if (a->kind == action_kind::backward) state.deliver_gradient(state.stage(lane), *a);
        if (a->kind == action_kind::update) state.finish_update(lane);
      }
  for (int lane = 0; lane < state.lanes(); ++lane)
    if (state.head(lane) != nullptr) return wait_cycle(state, lane);
  return {};
}

} // namespace

std::optional<std::string> check_schedule(const schedule& s) {
  if (auto f = check_counts(s)) return f;
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
    if (auto f = stage_checker(s, static_cast<int>(stage)).run()) return f;
  return check_it_runs(s);
}

} // namespace penstock::planner
