// Updates of a virtual machine: gradients of replicas meet, weights change.
#include "planner/machine_player.hpp"

#include <algorithm>

namespace penstock::planner {

std::size_t machine_player::group_of(const action& a) const {
  return static_cast<std::size_t>(a.kind == action_kind::update ? a.minibatch
                                                                : update_of(schedule_, a.stage, a.minibatch));
}

/// The replica's last backward of the update begins, or it has none and is at the update itself.
void machine_player::join_update(const action& a, double begin, double end) {
  const auto stage = a.stage;
  const auto& st = stage_of(stage);
  auto& u = state_of_update(a);
  u.first_ready = std::max(u.first_ready, begin);
  u.last_ready = std::max(u.last_ready, end);
  if (++u.joined == st.replicas && st.reduces && !st.updates_once && costs_of(stage).all_reduce_overlaps)
    begin_all_reduce(a);
}

void machine_player::reach_update(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& st = stage_of(stage);
  auto& u = state_of_update(a);
  own_of(stage, lane).reached.push_back(a);
  if (!own_of(stage, lane).shares[group_of(a)].is_begun) join_update(a, now_, now_);
  if (++u.reached == st.replicas) {
    if (!st.reduces || st.updates_once) {
      u.is_reduced = true;
    } else if (!costs_of(stage).all_reduce_overlaps) {
      u.first_ready = u.last_ready = now_;
      begin_all_reduce(a);
    }
  }
  queue_updates(stage);
}

// -- the all-reduce -----------------------------------------------------------------

void machine_player::begin_all_reduce(const action& a) {
  auto& st = stage_of(a.stage);
  const auto flows = st.route.flows.size();
  state_of_update(a).buckets.resize(flows);
  st.reducing.resize(flows);
  for (std::size_t flow = 0; flow < flows; ++flow) {
    st.reducing[flow].push_back(a);
    if (st.reducing[flow].size() == 1) plan_bucket(static_cast<int>(flow), a);
  }
}

void machine_player::plan_bucket(int flow, const action& a) {
  const auto& u = state_of_update(a);
  const auto next = u.buckets[static_cast<std::size_t>(flow)] + 1;
  const auto ready = u.first_ready + (u.last_ready - u.first_ready) * next / all_reduce_buckets;
  // By an event of its own also where it is ready: what else happens now comes first.
  schedule_event(std::max(now_, ready), happening::bucket_is_ready, flow, a);
}

void machine_player::send_bucket(int flow, const action& a) {
  const auto stage = a.stage;
  auto& st = stage_of(stage);
  auto& u = state_of_update(a);
  const auto which = static_cast<std::size_t>(flow);
  const auto way = machine_links::reduce(st.route, which, costs_of(stage).all_reduce_bytes / all_reduce_buckets, now_);
  u.begin = u.end == 0 ? way.begin : std::min(u.begin, way.begin);
  u.end = std::max(u.end, way.arrival);
  if (++u.buckets[which] < all_reduce_buckets) return schedule_event(way.arrival, happening::bucket_is_sent, flow, a);
  if (++u.sent == u.buckets.size()) schedule_event(u.end + st.route.latency, happening::all_reduce_ends, flow, a);
  auto& updates = st.reducing[which];
  updates.erase(updates.begin());
  if (!updates.empty()) schedule_event(way.arrival, happening::bucket_is_sent, flow, updates.front());
}

void machine_player::end_all_reduce(const action& a) {
  const auto stage = a.stage;
  auto& u = state_of_update(a);
  u.is_reduced = true;
  add_all_reduce(stage, group_of(a), u.begin, now_);
  queue_updates(stage);
}

void machine_player::add_all_reduce(int stage, std::size_t group, double begin, double end) {
  auto& st = stage_of(stage);
  const auto bytes = 2 * (st.route.members - 1) * costs_of(stage).all_reduce_bytes;
  st.reduced_seconds += end - begin;
  result_.bytes_sent += bytes;
  if (options_.keep_spans)
    result_.transfers.push_back({.what = transfer_kind::all_reduce,
                                 .stage = stage,
                                 .to_stage = stage,
                                 .minibatch = static_cast<std::int64_t>(group),
                                 .bytes = bytes,
                                 .begin = begin,
                                 .end = end});
}

// -- the update -----------------------------------------------------------------------

/// Hands to the devices what may be applied now, on each replica in order.
void machine_player::queue_updates(int stage) {
  const auto& st = stage_of(stage);
  const auto last_lane = st.first_lane + (st.updates_once ? 1 : st.replicas);
  for (auto lane = st.first_lane; lane < last_lane; ++lane) {
    auto& own = own_of(stage, lane);
    if (own.is_updating || own.reached.empty() || !state_of_update(own.reached.front()).is_reduced) continue;
    own.is_updating = true;
    const auto device = lane_of(lane).device;
    device_of(device).updates.push_back({lane, stage});
    start_update(device);
  }
}

void machine_player::start_update(int number) {
  auto& device = device_of(number);
  if (device.is_busy || device.updates.empty()) return;
  const auto [lane, stage] = device.updates.front();
  device.updates.erase(device.updates.begin());
  device.is_busy = true;
  const auto a = own_of(stage, lane).reached.front();
  const auto& st = stage_of(stage);
  auto begin = now_;
  if (st.reduces && st.updates_once) {
    begin += costs_of(stage).all_reduce_bytes * st.route.sum_per_byte * device.factor;
    add_all_reduce(stage, group_of(a), now_, begin);
  }
  const auto end = begin + seconds_of(lane, a);
  add_span(lane, a, begin, end);
  ledger_of(stage, lane).begin_update();
  count_versions(stage, lane);
  schedule_event(end, happening::update_ends, lane, a);
}

void machine_player::finish_update(int lane, const action& a) {
  const auto stage = a.stage;
  const auto& st = stage_of(stage);
  ledger_of(stage, lane).end_update();
  count_versions(stage, lane);
  const auto group = group_of(a);
  for (auto l = st.updates_once ? st.first_lane : lane; l < (st.updates_once ? st.first_lane + st.replicas : lane + 1);
       ++l) {
    auto& own = own_of(stage, l);
    if (own.shares[group].is_begun) own.memory.remove(memory_part::gradients, costs_of(stage).gradient_bytes);
    own.reached.erase(own.reached.begin());
    if (st.updates_once || machine_.links.empty())
      state_.finish_update(stage, state_.replica(l));
    else
      state_.finish_own_update(stage, state_.replica(l));
  }
  own_of(stage, lane).is_updating = false;
  queue_updates(stage);
  free_device(lane_of(lane).device, lane);
}

} // namespace penstock::planner
