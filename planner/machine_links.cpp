// Finds the channels of a message or an all-reduce and takes them.
#include "planner/machine_links.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace penstock::planner {

namespace {

/// Returns when they are held from.
double take(link_channel& first, link_channel& second, double ready, double seconds) {
  const auto begin = earliest_of_both(first, second, ready, seconds);
  first.take(begin, seconds, ready);
  if (&first != &second) second.take(begin, seconds, ready);
  return begin;
}

} // namespace

machine_links::machine_links(const std::vector<machine_link>& links, int devices) {
  int span = 1;
  for (const auto& link : links) {
    span *= link.group;
    level_state l{link, span, {}, {}, {}};
    const auto channels = static_cast<std::size_t>(link.shared ? (devices + span - 1) / span : devices);
    l.out.resize(channels);
    if (!link.half_duplex) l.in.resize(channels);
    levels_.push_back(std::move(l));
  }
}

int machine_links::level_between(int a, int b) const {
  if (a == b) return -1;
  for (std::size_t l = 0; l < levels_.size(); ++l)
    if (a / levels_[l].span == b / levels_[l].span) return static_cast<int>(l);
  return -1;
}

link_channel& machine_links::channel(level_state& l, int device, bool outward) {
  const auto i = static_cast<std::size_t>(l.link.shared ? device / l.span : device);
  return outward || l.in.empty() ? l.out[i] : l.in[i];
}

link_channel& machine_links::wire(level_state& l, int from, int to) {
  if (l.link.half_duplex && from > to) std::swap(from, to);
  return l.wires[{from, to}];
}

machine_links::passage machine_links::send(int from, int to, double bytes, double ready) {
  const auto joined = level_between(from, to);
  if (joined < 0) return {ready, ready};
  auto& l = levels_[static_cast<std::size_t>(joined)];
  const bool has_wire = l.link.point_to_point && !l.link.shared;
  // On a shared medium "out" is the way towards higher numbers, and both ends are on the same channel.
  const bool outward = !l.link.shared || from < to;
  auto& first = has_wire ? wire(l, from, to) : channel(l, from, outward);
  auto& second = has_wire ? first : channel(l, to, l.link.shared && outward);
  const auto held = l.link.bytes_per_second > 0 ? bytes / l.link.bytes_per_second : 0;
  const auto begin = take(first, second, ready, held);
  return {begin, begin + held + l.link.latency_s};
}

std::vector<machine_links::way> machine_links::flows_among(level_state& l, const std::vector<int>& devices) {
  std::vector<way> flows;
  std::set<link_channel*> taken;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto next = devices[(i + 1) % devices.size()];
    if (l.link.point_to_point && !l.link.shared) {
      auto& both = wire(l, devices[i], next);
      flows.push_back({&both, &both});
    } else if (devices.size() == 2 && !l.link.shared && !l.link.half_duplex) {
      flows.push_back({&channel(l, devices[i], true), &channel(l, next, false)});
    } else { // slices of all for all, so that a channel need not wait for any other; a shared one is held once for all
      for (const bool outward : {true, false})
        if (auto* one = &channel(l, devices[i], outward); taken.insert(one).second) flows.push_back({one, one});
    }
  }
  return flows;
}

double machine_links::reduce_seconds_per_byte(const level_state& l, const std::vector<int>& devices) {
  if (l.link.bytes_per_second <= 0) return 0;
  const auto members = static_cast<double>(devices.size());
  auto seconds = 2 * (members - 1) / members / l.link.bytes_per_second;
  if (l.link.shared) {
    std::map<int, int> sharers; // by component
    int most = 1;
    for (const auto d : devices)
      most = std::max(most, ++sharers[d / l.span]);
    return seconds * most; // what one sends another receives on the same channel, half duplex or not
  }
  return l.link.half_duplex ? 2 * seconds : seconds;
}

machine_links::group_route machine_links::route_among(const std::vector<int>& all, double bytes) {
  auto devices = all;
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  group_route route;
  route.members = static_cast<int>(devices.size());
  if (devices.size() < 2 || levels_.empty()) {
    route.flows.resize(1); // of none, which takes no time
    return route;
  }
  std::vector<bool> spanned(levels_.size());
  for (std::size_t i = 1; i < devices.size(); ++i) // sorted, so neighbours meet on every level that any two meet on
    spanned[static_cast<std::size_t>(level_between(devices[i - 1], devices[i]))] = true;
  level_state* slowest = nullptr;
  double most = 0;
  route.by_reference = true;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    if (!spanned[l]) continue;
    const auto& link = levels_[l].link;
    route.by_reference = route.by_reference && link.by_reference;
    if (link.bytes_per_second > 0)
      route.sum_per_byte = std::max(route.sum_per_byte, (route.members - 1) / link.bytes_per_second);
    const auto per_byte = reduce_seconds_per_byte(levels_[l], devices);
    const auto latency = 2 * (route.members - 1) * link.latency_s;
    if (slowest != nullptr && bytes * per_byte + latency < most) continue;
    slowest = &levels_[l];
    most = bytes * per_byte + latency;
    route.seconds_per_byte = per_byte;
    route.latency = latency;
  }
  route.flows = flows_among(*slowest, devices);
  return route;
}

machine_links::passage machine_links::reduce(const group_route& route, std::size_t flow, double bytes, double ready) {
  const auto [from, to] = route.flows[flow];
  if (from == nullptr) return {ready, ready};
  const auto held = bytes * route.seconds_per_byte;
  const auto begin = take(*from, *to, ready, held);
  return {begin, begin + held};
}

double machine_links::most_taken() const {
  double most = 0;
  for (const auto& l : levels_) {
    for (const auto* channels : {&l.out, &l.in})
      for (const auto& c : *channels)
        most = std::max(most, c.taken_in_all());
    for (const auto& [_, c] : l.wires)
      most = std::max(most, c.taken_in_all());
  }
  return most;
}

} // namespace penstock::planner
