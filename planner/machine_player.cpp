// Devices, actions and messages of a virtual machine.
#include "planner/machine_player.hpp"

#include "planner/machine_jitter.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace penstock::planner {

namespace {

double of_microbatch(const std::vector<double>& values, const action& a) {
  return values.size() == 1 ? values.front() : values[static_cast<std::size_t>(a.microbatch)];
}

int device_count(const machine& m) {
  int count = 0;
  for (const auto& stage : m.stages)
    for (const auto device : stage.devices)
      count = std::max(count, device + 1);
  return count;
}

} // namespace

machine_player::machine_player(const schedule& s, const machine& m, const machine_options& options)
    : schedule_(s), machine_(m), options_(options), state_(s, s.window), links_(m.links, device_count(m)),
      lanes_(static_cast<std::size_t>(state_.lanes())), devices_(static_cast<std::size_t>(device_count(m))),
      stages_(s.stages.size()),
      unfinished_(static_cast<std::size_t>(s.minibatches), static_cast<std::int32_t>(s.microbatches)) {
  result_.chunks = s.chunks;
  result_.busy.resize(s.stages.size());
  result_.peak_in_flight.resize(s.stages.size());
  result_.memory.resize(s.stages.size());
  result_.all_reduce_seconds.resize(s.stages.size());
  for (const auto& slow : options.stragglers)
    if (static_cast<std::size_t>(slow.device) < devices_.size()) device_of(slow.device).factor *= slow.factor;
  for (int stage = 0; stage < static_cast<int>(s.stages.size()); ++stage)
    add_stage(stage);
}

void machine_player::add_stage(int stage) {
  const auto& plan = schedule_.stages[static_cast<std::size_t>(stage)];
  const auto& costs = costs_of(stage);
  auto& st = stage_of(stage);
  st.first_lane = state_.first_lane(stage);
  st.replicas = plan.replicas;
  st.is_last = static_cast<std::size_t>(stage) + 1 == stages_.size();
  st.route = links_.route_among(costs.devices, costs.all_reduce_bytes);
  st.updates_once = st.route.by_reference;
  st.reduces = st.route.members > 1 && costs.all_reduce_bytes > 0;
  st.updates.resize(static_cast<std::size_t>(updates_of(schedule_, stage)));
  st.own.resize(static_cast<std::size_t>(plan.replicas));
  std::vector<stage_passes> readers;
  for (int r = 0; r < plan.replicas; ++r) {
    lane_of(st.first_lane + r).device = costs.devices[static_cast<std::size_t>(r)];
    st.own[static_cast<std::size_t>(r)].shares.resize(st.updates.size());
    readers.emplace_back(sequence(schedule_, worker{position_of(schedule_, stage), r}), stage,
                         stage_passes::kind::forwards);
    if (!st.updates_once) st.versions.push_back(version_ledger({readers.back()}));
  }
  if (st.updates_once) st.versions.emplace_back(std::move(readers));
  for (int r = 0; r < plan.replicas; ++r)
    hold_what_stays(stage, st.first_lane + r);
}

/// Backwards of the lane whose gradients go into the action's update.
std::int64_t machine_player::backwards_for(int lane, const action& a) const {
  const auto replicas = static_cast<std::int64_t>(schedule_.stages[static_cast<std::size_t>(a.stage)].replicas);
  const auto each = minibatches_per_update(schedule_, a.stage);
  const auto dealt_before = [&](std::int64_t minibatches) {
    const auto all = std::min(minibatches, schedule_.minibatches) * schedule_.microbatches;
    const auto replica = state_.replica(lane);
    return all > replica ? (all - replica + replicas - 1) / replicas : 0;
  };
  const auto group = static_cast<std::int64_t>(group_of(a));
  return dealt_before((group + 1) * each) - dealt_before(group * each);
}

// -- the loop -------------------------------------------------------------------------

machine_run machine_player::run() {
  start_woken();
  while (!events_.empty()) {
    const auto e = events_.top();
    events_.pop();
    now_ = e.time;
    handle(e);
    start_woken();
    if (machine_.blocking_sends) meet();
  }
  for (int lane = 0; lane < state_.lanes(); ++lane)
    if (const auto& head = state_.head(lane))
      throw std::logic_error("blocking sends deadlock: " + describe_place(head->stage, state_.replica(lane)) +
                             " cannot run " + describe(*head));
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    result_.busy[i] /= stages_[i].replicas;
    note_memory(static_cast<int>(i));
    if (const auto updates = stages_[i].updates.size(); updates > 0)
      result_.all_reduce_seconds[i] = stages_[i].reduced_seconds / static_cast<double>(updates);
  }
  note_steady_state();
  // A message or an update may begin later than it is known of.
  const auto begins_first = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  std::stable_sort(result_.spans.begin(), result_.spans.end(), begins_first);
  std::stable_sort(result_.transfers.begin(), result_.transfers.end(), begins_first);
  return std::move(result_);
}

void machine_player::schedule_event(double time, happening what, int lane, const action& about) {
  events_.push({time, ++made_, about, lane, what});
}

void machine_player::handle(const event& e) {
  switch (e.what) {
  case happening::action_ends:
    return finish(e.lane, e.about);
  case happening::message_arrives:
    return deliver(e.lane, e.about);
  case happening::both_are_free:
    return part(e.lane, e.about);
  case happening::bucket_is_ready:
    return send_bucket(e.lane, e.about);
  case happening::bucket_is_sent:
    return plan_bucket(e.lane, e.about);
  case happening::all_reduce_ends:
    return end_all_reduce(e.about);
  case happening::update_ends:
    return finish_update(e.lane, e.about);
  }
}

void machine_player::start_woken() {
  state_.take_woken(woken_);
  for (const auto lane : woken_)
    try_lane(lane);
}

/// Updates are reached in passing; anything else needs the device.
void machine_player::try_lane(int lane) {
  auto& state = lane_of(lane);
  while (!state.is_busy) {
    const auto next = state_.runnable(lane);
    if (!next) return;
    if (next->kind == action_kind::update) {
      state_.start(lane, *next);
      if (!gives_early(*next) || !own_of(next->stage, lane).shares[group_of(*next)].is_begun) reach_update(lane, *next);
      continue;
    }
    auto& device = device_of(state.device);
    if (device.is_busy) {
      if (!std::exchange(state.is_queued, true)) device.lanes.push_back(lane);
      return;
    }
    state_.start(lane, *next);
    occupy(lane, *next);
  }
}

void machine_player::free_device(int number, int finished_lane) {
  auto& device = device_of(number);
  device.is_busy = false;
  start_update(number);
  while (!device.is_busy && !device.lanes.empty()) {
    const auto lane = device.lanes.front();
    device.lanes.erase(device.lanes.begin());
    lane_of(lane).is_queued = false;
    try_lane(lane);
  }
  try_lane(finished_lane);
}

// -- actions and messages ---------------------------------------------------------------

double machine_player::backward_seconds_of(const action& a) const {
  const auto& costs = costs_of(a.stage);
  const auto whole = of_microbatch(costs.backward_seconds, a);
  if (a.kind == action_kind::backward) return whole;
  const auto weights = costs.weight_seconds.empty() ? whole / 2 : of_microbatch(costs.weight_seconds, a);
  return a.kind == action_kind::backward_weight ? weights : whole - weights;
}

double machine_player::seconds_of(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& costs = costs_of(stage);
  auto seconds = costs.update_seconds;
  if (a.kind == action_kind::forward) seconds = of_microbatch(costs.forward_seconds, a);
  if (a.kind != action_kind::forward && a.kind != action_kind::update) seconds = backward_seconds_of(a);
  if (makes_weight_gradient(a.kind)) {
    if (own_of(stage, lane).shares[group_of(a)].is_begun) seconds += costs.accumulate_seconds;
  }
  if (options_.jitter > 0) seconds *= jitter_of(options_, stage, state_.replica(lane), a);
  return seconds * device_of(lane_of(lane).device).factor;
}

void machine_player::add_span(int lane, const action& a, double begin, double end) {
  const auto stage = a.stage;
  result_.busy[static_cast<std::size_t>(stage)] += end - begin;
  result_.makespan = std::max(result_.makespan, end);
  if (options_.keep_spans) result_.spans.push_back({stage, state_.replica(lane), a, begin, end});
}

void machine_player::occupy(int lane, const action& a) {
  const auto stage = a.stage;
  auto& state = lane_of(lane);
  const auto end = now_ + seconds_of(lane, a);
  state.is_busy = device_of(state.device).is_busy = true;
  add_span(lane, a, now_, end);
  schedule_event(end, happening::action_ends, lane, a);
  if (a.kind == action_kind::forward) {
    auto& peak = result_.peak_in_flight[static_cast<std::size_t>(stage)];
    peak = std::max(peak, ++own_of(stage, lane).in_flight);
    hold_forward(lane, a);
    return;
  }
  hold_backward(lane, a);
  if (!makes_weight_gradient(a.kind)) return;
  auto& done = own_of(stage, lane).shares[group_of(a)];
  if (!std::exchange(done.is_begun, true)) done.backwards_left = backwards_for(lane, a);
  if (--done.backwards_left == 0) join_update(a, now_, end);
}

void machine_player::finish(int lane, const action& a) {
  auto& state = lane_of(lane);
  state.is_busy = false;
  let_go_after(lane, a);
  if (ends_flight(a.kind) || schedule_.is_frozen(a.stage)) --own_of(a.stage, lane).in_flight;
  if (makes_weight_gradient(a.kind)) {
    if (a.stage == schedule_.frozen_stages && --unfinished_[static_cast<std::size_t>(a.minibatch)] == 0)
      done_.push_back(now_);
    if (const auto group = group_of(a); gives_early(a) && own_of(a.stage, lane).shares[group].backwards_left == 0)
      reach_update(lane, update_action(a.stage, static_cast<std::int64_t>(group)));
  }
  if (machine_.blocking_sends && has_receiver(a) && state.device != lane_of(receiver_of(a)).device) {
    state.is_busy = true;
    state.unsent = a;
    return;
  }
  if (a.kind != action_kind::backward_weight) send(lane, a);
  free_device(state.device, lane);
}

bool machine_player::is_copied(int from_lane, int to_lane) const {
  const auto device = [&](int lane) { return lanes_[static_cast<std::size_t>(lane)].device; };
  return !links_.passes_references(links_.level_between(device(from_lane), device(to_lane)));
}

/// Else the result is the loss, the source's credit (nothing is sent below the first active stage), or a weight
/// gradient.
bool machine_player::has_receiver(const action& a) const {
  const auto stage = a.stage;
  if (a.kind == action_kind::backward_weight) return false;
  if (a.kind == action_kind::forward) return !stages_[static_cast<std::size_t>(stage)].is_last;
  return stage > schedule_.frozen_stages;
}

/// Takes the links; returns when the message arrives.
double machine_player::start_message(int lane, const action& a) {
  const auto stage = a.stage;
  const bool is_forward = a.kind == action_kind::forward;
  const auto peer = receiver_of(a);
  const auto peer_stage = stage + (is_forward ? 1 : -1);
  const auto bytes = of_microbatch(costs_of(std::min(stage, peer_stage)).output_bytes, a);
  const auto from = lane_of(lane).device, to = lane_of(peer).device;
  auto way = links_.send(from, to, bytes, now_);
  way.arrival += is_forward ? costs_of(stage).activation_delay_s : costs_of(stage).gradient_delay_s;
  if (from != to) result_.bytes_sent += bytes;
  if (options_.keep_spans)
    result_.transfers.push_back({is_forward ? transfer_kind::activation : transfer_kind::gradient, stage,
                                 state_.replica(lane), peer_stage, state_.replica(peer), a.minibatch, a.microbatch,
                                 bytes, way.begin, way.arrival});
  return way.arrival;
}

void machine_player::send(int lane, const action& a) {
  const auto arrival = has_receiver(a) ? start_message(lane, a) : now_;
  if (arrival > now_)
    schedule_event(arrival, happening::message_arrives, lane, a);
  else
    deliver(lane, a);
}

void machine_player::deliver(int lane, const action& a) {
  const auto stage = a.stage;
  const bool is_forward = a.kind == action_kind::forward;
  if (has_receiver(a)) {
    const auto peer = receiver_of(a);
    if (is_copied(lane, peer)) {
      memory_of(stage, lane).remove(memory_part::activations, held_by_sender(stage, a));
      memory_of(stage + (is_forward ? 1 : -1), peer)
          .add(memory_part::activations, of_microbatch(costs_of(is_forward ? stage : stage - 1).output_bytes, a));
    }
  }
  if (is_forward)
    state_.deliver_activation(a);
  else
    state_.deliver_gradient(a);
}

// -- memory -----------------------------------------------------------------------------

void machine_player::hold_what_stays(int stage, int lane) {
  const auto& costs = costs_of(stage);
  auto& memory = memory_of(stage, lane);
  memory.add(memory_part::optimizer_state, costs.optimizer_bytes);
  memory.add(memory_part::other, costs.state_bytes);
  count_versions(stage, lane);
}

version_ledger& machine_player::ledger_of(int stage, int lane) {
  auto& st = stage_of(stage);
  return st.versions[st.updates_once ? 0 : static_cast<std::size_t>(state_.replica(lane))];
}

/// Whoever shares the versions holds them.
void machine_player::count_versions(int stage, int lane) {
  const auto& st = stage_of(stage);
  const auto& costs = costs_of(stage);
  const auto bytes = costs.frozen_bytes + static_cast<double>(ledger_of(stage, lane).alive()) * costs.weight_bytes;
  if (!st.updates_once) return memory_of(stage, lane).set(memory_part::weights, bytes);
  for (int r = 0; r < st.replicas; ++r)
    memory_of(stage, st.first_lane + r).set(memory_part::weights, bytes);
}

void machine_player::hold_forward(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& costs = costs_of(stage);
  auto& ledger = ledger_of(stage, lane);
  ledger.capture(a.version);
  ledger.pass_forward(stage_of(stage).updates_once ? static_cast<std::size_t>(state_.replica(lane)) : 0);
  count_versions(stage, lane);
  auto& memory = memory_of(stage, lane);
  if (!schedule_.is_frozen(stage)) memory.add(memory_part::activations, of_microbatch(costs.kept_bytes, a));
  memory.add(memory_part::workspace, of_microbatch(costs.workspace_bytes, a));
}

const std::vector<double>& machine_player::workspace_of(int stage, action_kind kind) const {
  const auto& costs = costs_of(stage);
  static const std::vector<double> none{0};
  if (kind == action_kind::backward_weight)
    return costs.weight_workspace_bytes.empty() ? none : costs.weight_workspace_bytes;
  const bool is_apart = kind != action_kind::forward && !costs.backward_workspace_bytes.empty();
  return is_apart ? costs.backward_workspace_bytes : costs.workspace_bytes;
}

/// What a message is for its sender's memory: a gradient is all new, an activation may be kept for backward anyway.
double machine_player::held_by_sender(int stage, const action& a) const {
  if (a.kind != action_kind::forward) return of_microbatch(costs_of(stage - 1).output_bytes, a);
  const auto& costs = costs_of(stage);
  const bool keeps_none = costs.unkept_output_bytes.empty() || schedule_.is_frozen(stage);
  return of_microbatch(keeps_none ? costs.output_bytes : costs.unkept_output_bytes, a);
}

void machine_player::hold_backward(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& costs = costs_of(stage);
  auto& memory = memory_of(stage, lane);
  if (!schedule_.stashes_weights) {
    ledger_of(stage, lane).capture(a.version);
    count_versions(stage, lane);
  }
  memory.add(memory_part::workspace, of_microbatch(workspace_of(stage, a.kind), a)); // first: it may be below 0
  if (makes_weight_gradient(a.kind) && !own_of(stage, lane).shares[group_of(a)].is_begun)
    memory.add(memory_part::gradients, costs.gradient_bytes);
}

/// What came in is used up: the copy here, or what the sender held for it.
void machine_player::let_go_input(int lane, const action& a) {
  const auto from = a.stage + (a.kind == action_kind::forward ? -1 : 1);
  const auto sender = state_.lane_for(from, a);
  if (is_copied(sender, lane))
    memory_of(a.stage, lane)
        .remove(memory_part::activations, of_microbatch(costs_of(std::min(from, a.stage)).output_bytes, a));
  else
    memory_of(from, sender).remove(memory_part::activations, held_by_sender(from, a));
}

void machine_player::let_go_after(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& costs = costs_of(stage);
  auto& memory = memory_of(stage, lane);
  memory.remove(memory_part::workspace, of_microbatch(workspace_of(stage, a.kind), a));
  const bool is_forward = a.kind == action_kind::forward;
  const auto& delayed = costs.delayed_bytes.empty() ? costs.kept_bytes : costs.delayed_bytes;
  if (a.kind == action_kind::backward_weight) {
    memory.remove(memory_part::activations, of_microbatch(delayed, a));
  } else if (is_forward) {
    if (stage > 0) let_go_input(lane, a);
  } else {
    memory.remove(memory_part::activations, of_microbatch(costs.kept_bytes, a));
    if (!stage_of(stage).is_last) let_go_input(lane, a);
    if (a.kind == action_kind::backward_input) memory.add(memory_part::activations, of_microbatch(delayed, a));
  }
  if (has_receiver(a)) memory.add(memory_part::activations, held_by_sender(stage, a));
  // A stashing schedule's backward ends the forward's hold; else each pass had its own.
  if (schedule_.stashes_weights && !schedule_.is_frozen(stage) && !makes_weight_gradient(a.kind)) return;
  ledger_of(stage, lane).release(a.version);
  count_versions(stage, lane);
}

void machine_player::note_memory(int stage) {
  auto& most = result_.memory[static_cast<std::size_t>(stage)];
  const replica_memory* fullest = nullptr;
  for (const auto& own : stage_of(stage).own)
    if (fullest == nullptr || own.memory.peak() > fullest->peak()) fullest = &own.memory;
  most.total = fullest->peak();
  most.weights = fullest->peak_of(memory_part::weights);
  most.gradients = fullest->peak_of(memory_part::gradients);
  most.optimizer_state = fullest->peak_of(memory_part::optimizer_state);
  most.activations = fullest->peak_of(memory_part::activations);
  most.workspace = fullest->peak_of(memory_part::workspace);
  for (const auto& ledger : stage_of(stage).versions)
    most.versions = std::max(most.versions, ledger.most());
}

} // namespace penstock::planner
