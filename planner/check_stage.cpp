// Follows every micro-batch of a stage from its forward to its last gradient, and the versions between them.
#include "planner/check_stage.hpp"

#include <limits>

namespace penstock::planner {

std::string count_of(std::int64_t n, const std::string& noun) {
  if (n == 1) return "1 " + noun;
  return std::to_string(n) + " " + noun + (noun.ends_with("tch") ? "es" : "s");
}

stage_checker::stage_checker(const schedule& s, int stage)
    : schedule_(s), number_(stage), stage_(s.stages[static_cast<std::size_t>(stage)]),
      updates_wanted_(updates_of(s, stage)), replicas_(static_cast<std::size_t>(stage_.replicas)) {}

stage_checker::fault stage_checker::check(int replica, const action& a) {
  if (schedule_.is_frozen(number_) && a.kind != action_kind::forward)
    return here(replica, a) + " is there, and the stage is frozen: wanted forwards alone";
  if (a.kind == action_kind::update) return check_update(replica, a);
  if (a.minibatch < 0 || a.minibatch >= schedule_.minibatches || a.microbatch < 0 ||
      a.microbatch >= schedule_.microbatches)
    return here(replica, a) + " does not exist among " + count_of(schedule_.minibatches, "minibatch") + " of " +
           count_of(schedule_.microbatches, "micro-batch");
  if (const auto owner = replica_of(schedule_, number_, a.minibatch, a.microbatch); owner != replica)
    return here(replica, a) + " belongs to replica " + std::to_string(owner);
  if (auto f = check_delay(replica, a)) return f;
  if (schedule_.is_frozen(number_)) return check_frozen(replica, a);
  return a.kind == action_kind::forward ? check_forward(replica, a) : check_backward(replica, a);
}

stage_checker::progress stage_checker::progress_of(const replica_state& state, std::int64_t index) {
  if (index < state.microbatches.first()) return {pass::done, 0};
  return state.microbatches.at(index);
}

stage_checker::fault stage_checker::check_version_is_written(int replica, const action& a) const {
  if (a.version >= 0 && a.version <= replicas_[static_cast<std::size_t>(replica)].updates) return {};
  return here(replica, a) + " reads version " + std::to_string(a.version) + ", which no update before it writes";
}

stage_checker::fault stage_checker::check_delay(int replica, const action& a) const {
  const auto delayed = replicas_[static_cast<std::size_t>(replica)].delayed;
  if (a.kind == action_kind::backward_weight || delayed <= stage_.delayed_weight_gradients) return {};
  return here(replica, a) + " leaves " + count_of(delayed, "weight gradient") + " to come, wanted at most " +
         std::to_string(stage_.delayed_weight_gradients);
}

/// Nothing is held, and nothing comes after it.
stage_checker::fault stage_checker::check_frozen(int replica, const action& a) {
  auto& microbatches = replicas_[static_cast<std::size_t>(replica)].microbatches;
  if (progress_of(replicas_[static_cast<std::size_t>(replica)], index(a)).reached != pass::none)
    return here(replica, a) + " is there twice";
  microbatches.note(index(a), {pass::done, a.version});
  microbatches.settle([](const auto& p) { return p.reached == pass::done; });
  return check_version_is_written(replica, a);
}

stage_checker::fault stage_checker::check_forward(int replica, const action& a) {
  auto& state = replicas_[static_cast<std::size_t>(replica)];
  if (progress_of(state, index(a)).reached != pass::none) return here(replica, a) + " is there twice";
  if (++state.held > stage_.credit)
    return here(replica, a) + " holds " + std::to_string(state.held) + " in flight, wanted at most the credit " +
           std::to_string(stage_.credit);
  state.microbatches.note(index(a), {pass::forward, a.version});
  return check_version_is_written(replica, a);
}

stage_checker::fault stage_checker::check_order(int replica, const action& a, pass reached) const {
  if (reached == pass::none) return here(replica, a) + " comes before its forward";
  if (a.kind == action_kind::backward_weight && reached == pass::forward)
    return here(replica, a) + " comes before its backward_input";
  const auto wanted = a.kind == action_kind::backward_weight ? pass::input_gradient : pass::forward;
  if (reached != wanted) return here(replica, a) + " is there twice";
  return {};
}

stage_checker::fault stage_checker::check_backward(int replica, const action& a) {
  auto& state = replicas_[static_cast<std::size_t>(replica)];
  const auto known = progress_of(state, index(a));
  if (auto f = check_order(replica, a, known.reached)) return f;
  const bool is_done = makes_weight_gradient(a.kind);
  state.microbatches.note(index(a), {is_done ? pass::done : pass::input_gradient, known.version});
  state.microbatches.settle([](const auto& p) { return p.reached == pass::done; });
  if (ends_flight(a.kind)) --state.held;
  if (a.kind != action_kind::backward) state.delayed += is_done ? -1 : 1;
  if (const auto group = update_of(schedule_, number_, a.minibatch); group < state.updates)
    return here(replica, a) + " comes after update " + std::to_string(group) + ", which needs its gradient";
  if (schedule_.stashes_weights && a.version != known.version)
    return here(replica, a) + " reads version " + std::to_string(a.version) + ", its forward read version " +
           std::to_string(known.version);
  auto f = schedule_.stashes_weights ? check_holdings(replica, a) : check_version_is_written(replica, a);
  state.backwards += is_done ? 1 : 0;
  return f;
}

/// What the replica holds while the backward runs. Where updates lag, one is made as soon as its gradients are there,
/// before its place in the order.
stage_checker::fault stage_checker::check_holdings(int replica, const action& a) const {
  const auto& state = replicas_[static_cast<std::size_t>(replica)];
  const bool is_grouped = schedule_.updates.per_minibatch_group;
  const auto made = is_grouped ? std::max(state.updates, state.backwards) : state.updates;
  if (const auto readable = made - a.version + 1; readable > stage_.readable_versions)
    return here(replica, a) + " reads version " + std::to_string(a.version) + " of " +
           count_of(readable, "readable version") + ", wanted at most " + std::to_string(stage_.readable_versions);
  const auto sets = update_of(schedule_, number_, a.minibatch) - state.updates + 1;
  if (is_grouped && sets > 1 + stage_.update_lag)
    return here(replica, a) + " holds " + count_of(sets, "gradient set") + ", wanted at most " +
           std::to_string(1 + stage_.update_lag);
  return {};
}

stage_checker::fault stage_checker::check_update(int replica, const action& a) {
  auto& updates = replicas_[static_cast<std::size_t>(replica)].updates;
  if (a.minibatch != updates || updates == updates_wanted_)
    return here(replica, a) +
           (updates == updates_wanted_ ? " is one too many, wanted "
                                       : " where update " + std::to_string(updates) + " was due; wanted ") +
           count_of(updates_wanted_, "update") + " in turn on every replica";
  if (a.version != ++updates)
    return here(replica, a) + " writes version " + std::to_string(a.version) + ", wanted " + std::to_string(updates);
  return {};
}

stage_checker::fault stage_checker::check_end(int replica) const {
  const auto updates = replicas_[static_cast<std::size_t>(replica)].updates;
  if (updates == updates_wanted_) return {};
  return describe_place(number_, replica) + " ends after " + count_of(updates, "update") + ", wanted " +
         std::to_string(updates_wanted_) + " on every replica";
}

stage_checker::fault stage_checker::check_nothing_is_missing() const {
  const auto all = schedule_.minibatches * schedule_.microbatches;
  auto least = std::numeric_limits<std::int64_t>::max();
  auto reached = pass::none;
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    const auto& microbatches = replicas_[r].microbatches;
    const auto running = static_cast<std::int64_t>(r) + microbatches.first() * stage_.replicas;
    if (running >= all || running >= least) continue;
    least = running;
    reached = microbatches.at(microbatches.first()).reached;
  }
  if (least >= all) return {};
  auto kind = reached == pass::none ? action_kind::forward : action_kind::backward;
  if (reached == pass::input_gradient) kind = action_kind::backward_weight;
  const action a{kind, least / schedule_.microbatches, static_cast<std::int32_t>(least % schedule_.microbatches), 0,
                 number_};
  return here(replica_of(schedule_, number_, a.minibatch, a.microbatch), a) + " is missing";
}

void stage_checker::append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const {
  const auto updated = update_of(schedule_, number_, origin);
  const auto dealt = origin * schedule_.microbatches / stage_.replicas;
  for (const auto& state : replicas_) {
    const auto& held = state.microbatches;
    const auto backwards = schedule_.is_frozen(number_) ? 0 : state.backwards - dealt;
    numbers.insert(numbers.end(),
                   {state.held, state.delayed, state.updates - updated, backwards, held.first() - dealt, held.size()});
    for (auto i = held.first(); i < held.first() + held.size(); ++i)
      numbers.insert(numbers.end(), {static_cast<std::int64_t>(held.at(i).reached), held.at(i).version - updated});
  }
}

} // namespace penstock::planner
