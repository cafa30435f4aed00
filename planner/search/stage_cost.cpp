// Seconds and bytes of stages, links and partitions.
#include "planner/search/stage_cost.hpp"

#include "planner/search/column_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

namespace penstock::planner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

void check(const search_request& r) {
  const auto refuse = [](const std::string& what, const std::string& found, const std::string& wanted) {
    throw std::invalid_argument(what + " is " + found + ", wanted " + wanted);
  };
  if (r.microbatches < 1) refuse("the number of micro-batches", std::to_string(r.microbatches), "at least 1");
  if (r.charge == update_charge::every_group && r.microbatches != 1)
    refuse("the number of micro-batches", std::to_string(r.microbatches),
           "1 where an update follows every group of minibatches");
  if (!std::isfinite(r.samples) || !(r.samples > 0))
    refuse("a micro-batch's number of samples", std::to_string(r.samples), "a number above 0");
  if (r.update_lag < 0 || (r.update_lag > 0 && r.charge != update_charge::every_group))
    refuse("the update lag", std::to_string(r.update_lag),
           r.update_lag < 0 ? "at least 0" : "0 where no update follows every group of minibatches");
  if (r.stages < 0) refuse("the number of stages", std::to_string(r.stages), "at least 0");
  const auto& m = r.memory;
  if (m.optimizer_copies < 0 || m.gradient_sets < 0 || m.versions < 1)
    refuse("the memory rule",
           std::to_string(m.optimizer_copies) + " optimizer copies, " + std::to_string(m.gradient_sets) +
               " gradient sets, " + std::to_string(m.versions) + " versions",
           "at least 0, 0 and 1");
}

} // namespace

std::vector<int> replicas_of(const candidate& c) {
  std::vector<int> replicas;
  for (const auto& stage : c.stages)
    replicas.push_back(static_cast<int>(stage.devices.size()));
  return replicas;
}

double ring_cost::seconds(double bytes) const {
  double slowest = 0;
  for (const auto& l : levels)
    slowest = std::max(slowest, l.latency_s + bytes * l.seconds_per_byte);
  return slowest;
}

stage_cost::stage_cost(const profile& p, const layer_graph& graph, const cluster& c, const search_request& request)
    : graph_(graph), cluster_(c), request_(request), hands_on_(planner::hands_on(p)) {
  check(request);
  for (const auto& type : c.devices) {
    if (type.own_profile && type.own_profile->layers.size() != p.layers.size())
      throw std::invalid_argument("the profile of device type '" + type.name + "' has " +
                                  std::to_string(type.own_profile->layers.size()) + " layers, wanted the model's " +
                                  std::to_string(p.layers.size()));
    auto costs = type.own_profile;
    if (costs && hands_on_) { // which is the model's doing, not the device's
      auto own = *costs;
      for (std::size_t l = 0; l < p.layers.size(); ++l)
        own.layers[l].carried_bytes = p.layers[l].carried_bytes;
      costs = std::make_shared<const profile>(std::move(own));
    }
    loads_.emplace_back(costs ? *costs : p, graph, request.samples, type.threads, costs ? 1 : type.speed);
  }
  if (request.update_lag > 0) options_.push_back({.update_lag = request.update_lag});
  options_.emplace_back();
  if (request.allow_recompute)
    for (std::size_t i = 0, plain = options_.size(); i < plain; ++i)
      options_.push_back({.update_lag = options_[i].update_lag, .recompute = true});
  int size = 1;
  for (const auto& level : c.levels) {
    level_sizes_.push_back(size *= level.group);
    holds_copies_ = holds_copies_ || !level.by_reference;
  }
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    one_level_.push_back(c);
    for (std::size_t other = 0; other < c.levels.size(); ++other)
      if (other != i) {
        one_level_.back().levels[other].bandwidth_bytes_per_s = infinity;
        one_level_.back().levels[other].latency_s = 0;
      }
  }
}

stage_load stage_cost::load(int type, int from, int to, int replicas, std::int64_t column_blocks) const {
  auto load = loads(type).between(from, to);
  if (load.carried_bytes <= 0) return load;
  const auto blocks = column_blocks > 0 ? column_blocks : std::max<std::int64_t>(replicas, request_.column_blocks);
  load.state_bytes =
      load.carried_bytes * request_.samples * request_.microbatches * static_cast<double>(blocks) / replicas;
  return load;
}

double stage_cost::memory_limit(int type) const {
  return cluster_.devices[static_cast<std::size_t>(type)].memory_bytes;
}

std::int64_t stage_cost::in_flight(int replicas, int downstream) const {
  const auto share = ceil_div(request_.microbatches, replicas); // of a minibatch, on one replica
  if (request_.whole_minibatch_in_flight) return share;
  const auto tight = ceil_div(std::int64_t{replicas} + downstream, replicas); // V_s
  return request_.charge == update_charge::flush ? std::min(tight, share) : tight;
}

bool stage_cost::admits(int replicas, std::int64_t in_flight) const {
  if (!keeps_columns(replicas)) return false;
  return request_.charge != update_charge::every_minibatch || (in_flight - 1) * replicas <= request_.microbatches;
}

bool stage_cost::keeps_columns(int replicas) const {
  return request_.column_blocks == 0 || request_.column_blocks % replicas == 0;
}

stage_cost::memory_line stage_cost::memory_of(const stage_load& load, const stage_options& how) const {
  const auto& rule = request_.memory;
  const bool is_cautious = request_.errs == estimate::cautious;
  memory_line line;
  line.fixed = load.frozen_bytes + load.weight_bytes * (rule.optimizer_copies + (is_cautious ? rule.gradient_sets : 1));
  line.fixed += load.state_bytes;
  line.fixed += static_cast<double>(how.update_lag) * load.weight_bytes * (is_cautious ? 2 : 1);
  if (is_cautious) line.fixed += load.workspace_bytes + load.input_bytes + load.output_bytes;
  if (load.active_layers == 0) return line; // it keeps nothing for a backward
  (rule.versions_follow_in_flight ? line.each : line.fixed) +=
      load.weight_bytes * (rule.versions_follow_in_flight || !is_cautious ? 1 : rule.versions);
  if (how.recompute) line.fixed += load.kept_bytes;
  line.each += how.recompute ? load.input_bytes : load.kept_bytes + (holds_copies_ ? load.input_bytes : 0);
  return line;
}

double stage_cost::memory_bytes(const stage_load& load, std::int64_t in_flight, const stage_options& how) const {
  const auto line = memory_of(load, how);
  return line.fixed + static_cast<double>(in_flight) * line.each;
}

std::int64_t stage_cost::most_in_flight(const stage_load& load, int type, const stage_options& how) const {
  constexpr std::int64_t unlimited = std::numeric_limits<std::int32_t>::max();
  const auto limit = memory_limit(type);
  if (limit == 0) return unlimited;
  const auto line = memory_of(load, how);
  const auto fits = [&](std::int64_t k) { return line.fixed + static_cast<double>(k) * line.each <= limit; };
  if (!fits(1)) return 0;
  if (fits(unlimited)) return unlimited;
  auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>((limit - line.fixed) / line.each));
  // The quotient is rounded, the limit is not.
  while (!fits(most))
    --most;
  while (fits(most + 1))
    ++most;
  return most;
}

double stage_cost::excess_bytes(const stage_load& load, int type, std::int64_t in_flight) const {
  if (memory_limit(type) == 0) return 0;
  auto bytes = memory_bytes(load, in_flight, {});
  if (request_.allow_recompute) bytes = std::min(bytes, memory_bytes(load, in_flight, {.recompute = true}));
  return std::max(0.0, bytes - memory_limit(type));
}

int stage_cost::level_between(int a, int b) const {
  std::size_t level = 0;
  while (a / level_sizes_[level] != b / level_sizes_[level])
    ++level;
  return static_cast<int>(level);
}

ring_cost stage_cost::ring(const std::vector<int>& devices) const {
  ring_cost cost;
  if (devices.size() < 2) return cost;
  constexpr double bytes = 1e9;
  for (const auto& c : one_level_) {
    // On one level an all-reduce is linear in bytes.
    const auto latency = all_reduce_seconds(c, devices, 0);
    const ring_cost::level level{latency, (all_reduce_seconds(c, devices, bytes) - latency) / bytes};
    const auto hides = [](const auto& a, const auto& b) {
      return a.latency_s >= b.latency_s && a.seconds_per_byte >= b.seconds_per_byte;
    };
    if (std::any_of(cost.levels.begin(), cost.levels.end(), [&](const auto& l) { return hides(l, level); })) continue;
    std::erase_if(cost.levels, [&](const auto& l) { return hides(level, l); });
    if (level.seconds_per_byte > 0 || level.latency_s > 0) cost.levels.push_back(level);
  }
  return cost;
}

int stage_cost::turns(const link_level& level) const {
  return request_.errs == estimate::cautious || level.half_duplex ? 2 : 1;
}

link_cost stage_cost::link(const std::vector<int>& from, const std::vector<int>& to) const {
  const auto senders = from.size(), receivers = to.size();
  link_cost cost;
  if (cluster_.levels.size() == 1 && !cluster_.levels[0].shared) {
    const auto& l = cluster_.levels[0];
    return {l.latency_s, 1 / l.bandwidth_bytes_per_s,
            turns(l) / (l.bandwidth_bytes_per_s * static_cast<double>(std::min(senders, receivers)))};
  }
  const auto messages = std::lcm(senders, receivers); // one round of the dealing
  const auto levels = cluster_.levels.size();
  std::vector<int> sent(levels * senders), received(levels * receivers);
  std::vector<std::vector<int>> carried(levels); // by each component of a shared level
  for (std::size_t i = 0; i < levels; ++i)
    if (cluster_.levels[i].shared)
      carried[i].resize(static_cast<std::size_t>(cluster_.device_count() / level_sizes_[i]));
  for (std::size_t m = 0; m < messages; ++m) {
    const auto a = from[m % senders], b = to[m % receivers];
    const auto i = static_cast<std::size_t>(level_between(a, b));
    ++sent[i * senders + m % senders];
    ++received[i * receivers + m % receivers];
    if (cluster_.levels[i].shared) ++carried[i][static_cast<std::size_t>(a / level_sizes_[i])];
  }
  const auto busiest = [](const auto first, const auto last) {
    return first == last ? 0 : *std::max_element(first, last);
  };
  for (std::size_t i = 0; i < levels; ++i) {
    const auto& l = cluster_.levels[i];
    const auto by_senders = sent.begin() + static_cast<std::ptrdiff_t>(i * senders);
    const auto by_receivers = received.begin() + static_cast<std::ptrdiff_t>(i * receivers);
    const auto at_one = std::max(busiest(by_senders, by_senders + static_cast<std::ptrdiff_t>(senders)),
                                 busiest(by_receivers, by_receivers + static_cast<std::ptrdiff_t>(receivers)));
    if (at_one == 0) continue;
    const auto flows = turns(l) * (l.shared ? busiest(carried[i].begin(), carried[i].end()) : at_one);
    cost.latency_s = std::max(cost.latency_s, l.latency_s);
    cost.seconds_per_byte = std::max(cost.seconds_per_byte, 1 / l.bandwidth_bytes_per_s);
    cost.period_per_byte =
        std::max(cost.period_per_byte, flows / (l.bandwidth_bytes_per_s * static_cast<double>(messages)));
  }
  return cost;
}

/// A replica's own messages, which take turns with its all-reduce on one level of links. Of several levels nobody knows
/// here which ones they use.
double stage_cost::messages_beside(const stage_load& load, int replicas, const ring_cost& ring) const {
  if (cluster_.levels.size() > 1 || ring.levels.empty()) return 0;
  const double share = 2 * (1 - 1.0 / replicas); // of its bytes that a device of a ring sends
  return (load.input_bytes + load.output_bytes) * ring.levels.front().seconds_per_byte / share;
}

cost_terms stage_cost::stage(const stage_load& load, int replicas, const stage_options& how,
                             const ring_cost& ring) const {
  const double of = replicas, batch = request_.microbatches;
  const auto f = load.forward_seconds, u = load.update_seconds;
  const auto accumulations = [&](double share) { return load.accumulate_seconds * (1 - 1 / std::max(1.0, share)); };
  auto b = load.backward_seconds + (how.recompute ? f : 0);
  const auto a = load.weight_bytes > 0 ? ring.seconds(load.weight_bytes) : 0;
  switch (request_.charge) {
  case update_charge::every_group:
    if (how.update_lag == 0) return {.most = (f + std::max(b, a) + u) / of};
    return {.most = std::max(f + b + u, a + messages_beside(load, replicas, ring)) / of};
  case update_charge::every_minibatch:
    b += accumulations(batch / of);
    return {.most = std::max((f + b) * batch / of + u, a) / batch};
  case update_charge::flush:
    break;
  }
  const auto rounds = static_cast<double>(ceil_div(request_.microbatches, replicas));
  b += accumulations(rounds);
  if (load.active_layers == 0) return {.most = (rounds - 1) * f}; // it runs ahead over the flush
  const double exposed = request_.errs == estimate::cautious ? std::max(0.0, a - b) : 0;
  return {.sum = f + b, .most = (rounds - 1) * (f + b), .tail = exposed + u};
}

cost_terms stage_cost::link(const link_cost& link, double bytes) const {
  if (request_.charge != update_charge::flush) return {.most = bytes * link.period_per_byte};
  return {.sum = 2 * (link.latency_s + bytes * link.seconds_per_byte),
          .most = (request_.microbatches - 1) * bytes * link.period_per_byte};
}

bool stage_cost::decide(const stage_load& load, int type, int replicas, std::int64_t in_flight, const ring_cost& ring,
                        stage_options& how, cost_terms& terms) const {
  how = {}; // where nothing fits
  terms = stage(load, replicas, how, ring);
  if (load.active_layers > 0 && !admits(replicas, in_flight)) return false;
  const bool is_limited = memory_limit(type) > 0;
  bool fits = false;
  for (const auto& option : options_) {
    if (option.update_lag > 0 && replicas == 1) continue;
    if (is_limited && in_flight > most_in_flight(load, type, option)) continue;
    const auto here = stage(load, replicas, option, ring);
    if (fits && here.seconds() >= terms.seconds()) continue;
    how = option;
    terms = here;
    fits = true;
  }
  return fits;
}

bool stage_cost::complete(candidate& c) const {
  cost_terms total;
  int downstream = 0;
  bool fits = true;
  const auto blocks = hands_on_ ? column_blocks_of(replicas_of(c)) : 1;
  for (auto s = c.stages.size(); s-- > 0;) {
    auto& stage_s = c.stages[s];
    const auto replicas = static_cast<int>(stage_s.devices.size());
    const auto type = cluster_.type_of(stage_s.devices.front());
    const auto load = this->load(type, stage_s.from_state, stage_s.to_state, replicas, blocks);
    stage_s.in_flight = in_flight(replicas, downstream);
    cost_terms terms;
    stage_options how;
    fits = decide(load, type, replicas, stage_s.in_flight, ring(stage_s.devices), how, terms) && fits;
    stage_s.recompute = how.recompute;
    stage_s.update_lag = how.update_lag;
    total = total + terms;
    if (s + 1 < c.stages.size())
      total = total + link(link(stage_s.devices, c.stages[s + 1].devices), loads(0).crossing_bytes(stage_s.to_state));
    downstream += replicas;
  }
  c.seconds = fits ? total.seconds() : infinity;
  return fits;
}

double stage_cost::excess_bytes(const candidate& c) const {
  double worst = 0;
  int downstream = 0;
  const auto blocks = hands_on_ ? column_blocks_of(replicas_of(c)) : 1;
  for (auto s = c.stages.size(); s-- > 0;) {
    const auto& stage_s = c.stages[s];
    const auto type = cluster_.type_of(stage_s.devices.front());
    const auto replicas = static_cast<int>(stage_s.devices.size());
    const auto load = this->load(type, stage_s.from_state, stage_s.to_state, replicas, blocks);
    worst = std::max(worst, excess_bytes(load, type, in_flight(replicas, downstream)));
    downstream += replicas;
  }
  return worst;
}

} // namespace penstock::planner
