// Blocking sends of a virtual machine: a device that sends or receives does nothing else (BaPipe's 1F1B-SNO).
#include "planner/machine_player.hpp"

#include <algorithm>

namespace penstock::planner {

int machine_player::receiver_of(const action& a) const {
  return state_.lane_for(a.stage + (a.kind == action_kind::forward ? 1 : -1), a);
}

namespace {

/// A stage may do whole what the one behind it does in two parts.
bool takes(const action& receiver, const action& sender) {
  if (sender.kind == action_kind::forward) return receiver.kind == action_kind::forward;
  return ends_flight(receiver.kind);
}

} // namespace

/// A receiver takes a message where its list wants it, and no earlier: receives are posted in order.
bool machine_player::awaits(int lane, const action& a) const {
  const auto& state = lanes_[static_cast<std::size_t>(lane)];
  const auto& head = state_.head(lane);
  return !state.is_busy && !devices_[static_cast<std::size_t>(state.device)].is_busy && head && takes(*head, a) &&
         head->stage == a.stage + (a.kind == action_kind::forward ? 1 : -1) && head->minibatch == a.minibatch &&
         head->microbatch == a.microbatch;
}

/// Starts every transfer whose two ends are there. Ends that wait to send to each other do both at once, as a paired
/// send and receive does.
void machine_player::meet() {
  for (int lane = 0; lane < state_.lanes(); ++lane) {
    auto& sender = lane_of(lane);
    if (!sender.unsent || sender.is_sending) continue;
    const auto peer = receiver_of(*sender.unsent);
    auto& receiver = lane_of(peer);
    const bool is_pair = receiver.unsent && !receiver.is_sending && receiver_of(*receiver.unsent) == lane;
    if (!is_pair && !awaits(peer, *sender.unsent)) continue;
    auto end = start_message(lane, *sender.unsent);
    if (is_pair) end = std::max(end, start_message(peer, *receiver.unsent));
    receiver.is_busy = device_of(receiver.device).is_busy = true;
    begin_parting(lane, is_pair, end);
    if (is_pair) begin_parting(peer, is_pair, end);
  }
}

void machine_player::begin_parting(int lane, bool is_paired, double end) {
  auto& sender = lane_of(lane);
  sender.is_sending = true;
  sender.is_paired = is_paired;
  schedule_event(end, happening::both_are_free, lane, *sender.unsent);
}

/// Of a pair, each frees itself.
void machine_player::part(int lane, const action& a) {
  auto& sender = lane_of(lane);
  sender.unsent.reset();
  sender.is_sending = sender.is_busy = false;
  deliver(lane, a);
  if (!sender.is_paired) {
    const auto peer = receiver_of(a);
    lane_of(peer).is_busy = false;
    free_device(lane_of(peer).device, peer);
  }
  free_device(sender.device, lane);
}

} // namespace penstock::planner
