// Finds the channels of a message or an all-reduce and takes them.
#include "planner/machine_links.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace penstock::planner {

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

double& machine_links::channel(level_state& l, int device, bool outward) {
  const auto i = static_cast<std::size_t>(l.link.shared ? device / l.span : device);
  return outward || l.in.empty() ? l.out[i] : l.in[i];
}

double& machine_links::wire(level_state& l, int from, int to) {
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
  const auto begin = std::max({ready, first, second});
  const auto held = l.link.bytes_per_second > 0 ? bytes / l.link.bytes_per_second : 0;
  first = second = begin + held;
  return {begin, begin + held + l.link.latency_s};
}

std::vector<std::pair<double*, double*>> machine_links::ring_flows(level_state& l, const std::vector<int>& devices) {
  std::vector<std::pair<double*, double*>> flows;
  std::set<double*> shared;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto next = devices[(i + 1) % devices.size()];
    if (l.link.point_to_point && !l.link.shared) {
      auto& both = wire(l, devices[i], next);
      flows.emplace_back(&both, &both);
    } else if (!l.link.shared && !l.link.half_duplex) {
      flows.emplace_back(&channel(l, devices[i], true), &channel(l, next, false));
    } else { // what one sends another receives on the same channel, which is held once for both
      for (const bool outward : {true, false})
        if (auto* one = &channel(l, devices[i], outward); shared.insert(one).second) flows.emplace_back(one, one);
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
  // Of many members all wait for the slowest at every bucket, which costs fewer events.
  constexpr std::size_t few = 4;
  for (auto& flow : ring_flows(*slowest, devices))
    if (devices.size() <= few || route.flows.empty())
      route.flows.push_back({flow});
    else
      route.flows.front().push_back(flow);
  return route;
}

machine_links::passage machine_links::reduce(const group_route& route, std::size_t list, double bytes, double ready) {
  const auto held = bytes * route.seconds_per_byte;
  if (route.flows[list].empty()) return {ready, ready};
  passage all{std::numeric_limits<double>::infinity(), ready};
  for (const auto& [from, to] : route.flows[list]) {
    const auto begin = std::max({ready, *from, *to});
    *from = *to = begin + held;
    all.begin = std::min(all.begin, begin);
    all.arrival = std::max(all.arrival, begin + held);
  }
  return all;
}

} // namespace penstock::planner
