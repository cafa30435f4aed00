// The waiting rules, and who is to blame when nothing moves.
#include "planner/playback.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::planner {

std::string describe(const action& a) {
  if (a.kind == action_kind::update) return "update " + std::to_string(a.minibatch);
  std::string kind = "forward";
  if (a.kind == action_kind::backward) kind = "backward";
  if (a.kind == action_kind::backward_input) kind = "backward_input";
  if (a.kind == action_kind::backward_weight) kind = "backward_weight";
  return kind + " of minibatch " + std::to_string(a.minibatch) + " micro-batch " + std::to_string(a.microbatch);
}

std::string describe_place(int stage, int replica) {
  return "stage " + std::to_string(stage) + " replica " + std::to_string(replica);
}

playback::playback(const schedule& s, int window) : schedule_(s), window_(static_cast<std::size_t>(window)) {
  const auto all = s.minibatches * s.microbatches;
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    stage_state state;
    state.first_lane = lanes();
    if (i > 0) state.activation_here.resize(static_cast<std::size_t>(all));
    state.gradient_here.resize(static_cast<std::size_t>(all));
    stages_.push_back(std::move(state));
    for (int replica = 0; replica < s.stages[i].replicas; ++replica) {
      woken_.push_back(lanes());
      auto& lane = lanes_.emplace_back();
      lane.stage = static_cast<int>(i);
      lane.replica = replica;
    }
  }
  admitted_ = std::min(s.source_credit(), all);
}

const std::vector<action>& playback::list(int lane) const {
  return schedule_.stages[static_cast<std::size_t>(stage(lane))].lists[static_cast<std::size_t>(replica(lane))].actions;
}

const action* playback::head(int lane) const {
  const auto& actions = list(lane);
  return at(lane).head < actions.size() ? &actions[at(lane).head] : nullptr;
}

std::size_t playback::running(const action& a) const {
  return static_cast<std::size_t>(a.minibatch * schedule_.microbatches + a.microbatch);
}

int playback::lane_for(int stage, const action& a) const {
  return state_of(stage).first_lane + replica_of(schedule_, stage, a.minibatch, a.microbatch);
}

bool playback::input_is_here(int stage, const action& a) const {
  if (a.kind == action_kind::forward)
    return stage == 0 ? static_cast<std::int64_t>(running(a)) < admitted_ : state_of(stage).activation_here[running(a)];
  return state_of(stage).gradient_here[running(a)];
}

bool playback::is_runnable(int lane, const action& a) const {
  if (a.kind == action_kind::update) return true;
  const auto here = static_cast<std::size_t>(stage(lane));
  if (a.kind == action_kind::forward && at(lane).in_flight >= schedule_.stages[here].credit) return false;
  return a.version <= at(lane).version && input_is_here(stage(lane), a);
}

std::optional<std::size_t> playback::runnable_offset(int lane) const {
  const auto& state = at(lane);
  const auto& actions = list(lane);
  bool forward_passed = false, other_passed = false;
  for (std::size_t i = 0; i <= window_ && state.head + i < actions.size() && !(forward_passed && other_passed); ++i) {
    if (i < state.started.size() && state.started[i]) continue;
    const auto& a = actions[state.head + i];
    auto& passed = a.kind == action_kind::forward ? forward_passed : other_passed;
    if (!passed && is_runnable(lane, a)) return i;
    passed = true;
  }
  return {};
}

const action* playback::runnable(int lane) const {
  const auto offset = runnable_offset(lane);
  return offset ? &list(lane)[at(lane).head + *offset] : nullptr;
}

void playback::start(int lane, const action& a) {
  auto& state = lanes_[static_cast<std::size_t>(lane)];
  if (a.kind == action_kind::forward) ++state.in_flight;
  if (a.kind == action_kind::backward) --state.in_flight;
  const auto offset = static_cast<std::size_t>(&a - &list(lane)[state.head]);
  if (offset == 0 && state.started.empty()) { // in order, as nearly always
    ++state.head;
    return;
  }
  if (state.started.size() <= offset) state.started.resize(offset + 1);
  state.started[offset] = true;
  for (; !state.started.empty() && state.started.front(); ++state.head)
    state.started.pop_front();
}

const action* playback::start_next(int lane) {
  const auto* a = runnable(lane);
  if (a != nullptr) start(lane, *a);
  return a;
}

void playback::deliver_activation(int stage, const action& forward) {
  const auto next = static_cast<std::size_t>(stage) + 1;
  const bool is_loss = next == stages_.size();
  if (is_loss)
    stages_.back().gradient_here[running(forward)] = true;
  else
    stages_[next].activation_here[running(forward)] = true;
  woken_.push_back(lane_for(is_loss ? stage : stage + 1, forward));
}

void playback::deliver_gradient(int stage, const action& backward) {
  if (stage > 0) {
    stages_[static_cast<std::size_t>(stage) - 1].gradient_here[running(backward)] = true;
    woken_.push_back(lane_for(stage - 1, backward));
    return;
  }
  if (admitted_ == schedule_.minibatches * schedule_.microbatches) return;
  // Stage 0 deals by the same running number as the source counts.
  woken_.push_back(static_cast<int>(admitted_ % schedule_.stages.front().replicas));
  ++admitted_;
}

void playback::finish_update(int lane) {
  ++lanes_[static_cast<std::size_t>(lane)].updates;
  const auto& state = state_of(stage(lane));
  const auto replicas = schedule_.stages[static_cast<std::size_t>(stage(lane))].replicas;
  auto least = std::numeric_limits<std::int64_t>::max();
  for (int r = 0; r < replicas; ++r)
    least = std::min(least, at(state.first_lane + r).updates);
  if (least == at(lane).version) return;
  for (int r = 0; r < replicas; ++r) {
    lanes_[static_cast<std::size_t>(state.first_lane + r)].version = least;
    woken_.push_back(state.first_lane + r);
  }
}

void playback::finish_own_update(int lane) {
  auto& state = lanes_[static_cast<std::size_t>(lane)];
  state.version = ++state.updates;
  woken_.push_back(lane);
}

void playback::take_woken(std::vector<int>& woken) {
  woken.clear();
  woken.swap(woken_);
}

playback::obstacle playback::missing_credit() const {
  obstacle who{0, "a credit of the source"};
  auto lowest = std::numeric_limits<std::size_t>::max();
  for (int lane = 0; lane < schedule_.stages.front().replicas; ++lane)
    for (auto i = at(lane).head; i < list(lane).size(); ++i)
      if (const auto& a = list(lane)[i]; a.kind == action_kind::backward && running(a) < lowest) {
        lowest = running(a);
        who.lane = lane;
      }
  return who;
}

playback::obstacle playback::missing_version(int stage, std::int64_t version) const {
  const auto replicas = schedule_.stages[static_cast<std::size_t>(stage)].replicas;
  auto slowest = state_of(stage).first_lane;
  for (int r = 0; r < replicas; ++r)
    if (at(state_of(stage).first_lane + r).updates < at(slowest).updates) slowest = state_of(stage).first_lane + r;
  return {slowest, "version " + std::to_string(version)};
}

playback::obstacle playback::blocked_by(int lane) const {
  const auto& a = *head(lane);
  const auto here = stage(lane);
  if (a.version > at(lane).version) return missing_version(here, a.version);
  if (a.kind != action_kind::forward) return {lane_for(here + 1, a), "its gradient"};
  return here == 0 ? missing_credit() : obstacle{lane_for(here - 1, a), "its input"};
}

} // namespace penstock::planner
