// Cuts, schedule, ranks and threads, in this order.
#include "actors/policy/settle_plan.hpp"

#include "actors/policy/asking_the_planner.hpp"
#include "actors/policy/freezing.hpp"
#include "actors/policy/partition.hpp"
#include "kernels/check.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>

namespace penstock::actors {

namespace {

using planner::execution_plan;

std::vector<int> cuts_for(const pipeline_request& r, const model& net) {
  const int layers = static_cast<int>(net.layers().size());
  std::vector<int> replicas; // by stage
  for (int chunk = 0; chunk < chunks_of(r); ++chunk)
    replicas.insert(replicas.end(), r.replicas.begin(), r.replicas.end());
  if (static_cast<int>(replicas.size()) > layers && chunks_of(r) > 1)
    throw usage_error("chunks: " + std::to_string(chunks_of(r)) + " on " + std::to_string(r.replicas.size()) +
                      " worker positions are " + std::to_string(replicas.size()) + " stages, wanted at most " +
                      std::to_string(layers) + ", the layers of " + net.name());
  if (r.cuts.empty()) return balanced_cuts(net, replicas, r.frozen_until);
  if (r.cuts.size() + 1 != replicas.size())
    throw usage_error("cuts: " + std::to_string(r.cuts.size()) + " given; " + std::to_string(replicas.size()) +
                      " stages have " + std::to_string(replicas.size() - 1));
  std::vector<int> cuts{0};
  for (const int c : r.cuts) {
    if (c <= cuts.back() || c >= layers)
      throw usage_error("cuts: layer " + std::to_string(c) + " cannot begin a stage after layer " +
                        std::to_string(cuts.back()) + " in a model of " + std::to_string(layers) + " layers");
    cuts.push_back(c);
  }
  return cuts;
}

// All that a position hosts runs where its first stage does.
std::span<const planner::planned_stage> first_of_each_position(const execution_plan& p) {
  return std::span(p.stages).first(positions_of(p));
}

// Ranks by devices "TYPE:R", where there are no more than the job has processes. Nothing where a device has no such
// number, or the plan was made for more processes.
std::optional<std::vector<std::vector<int>>> ranks_by_devices(const execution_plan& p, int processes) {
  std::vector<std::vector<int>> ranks;
  std::set<int> used;
  for (const auto& stage : first_of_each_position(p)) {
    auto& of_stage = ranks.emplace_back();
    for (const auto& device : stage.devices) {
      const auto colon = device.rfind(':');
      if (colon == std::string::npos) return std::nullopt;
      int rank = 0;
      const char* end = device.data() + device.size();
      const auto [rest, fault] = std::from_chars(device.data() + colon + 1, end, rank);
      if (fault != std::errc{} || rest != end || rank < 0) return std::nullopt;
      if (rank >= processes || !used.insert(rank).second) return std::nullopt;
      of_stage.push_back(rank);
    }
    if (of_stage.size() != static_cast<std::size_t>(stage.replicas)) return std::nullopt;
  }
  return ranks;
}

std::vector<std::vector<int>> given_ranks(const execution_plan& p) {
  std::vector<std::vector<int>> ranks;
  for (const auto& stage : first_of_each_position(p))
    ranks.push_back(stage.ranks);
  return ranks;
}

void settle_ranks(execution_plan& p, int processes) {
  std::vector<int> replicas; // by position
  for (const auto& stage : first_of_each_position(p))
    replicas.push_back(stage.replicas);
  placement where{processes, {}};
  if (!p.stages.front().ranks.empty() && (p.processes == 0 || p.processes == processes)) {
    where.rank_of = given_ranks(p);
    check_placement(where, replicas);
  } else if (auto by_devices = ranks_by_devices(p, processes); by_devices && processes > 1) {
    where.rank_of = std::move(*by_devices);
  } else {
    where = place_in_order(replicas, processes);
  }
  p.processes = processes > 1 ? processes : 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    p.stages[s].ranks = processes > 1 ? where.rank_of[s % replicas.size()] : std::vector<int>();
}

} // namespace

int workers_on(const execution_plan& settled, int rank) {
  const auto where = placement_of(settled);
  int workers = 0;
  for (std::size_t position = 0; position < positions_of(settled); ++position)
    workers += static_cast<int>(std::ranges::count(where.rank_of[position], rank));
  return workers;
}

int chunks_of(const pipeline_request& r) {
  if (r.chunks > 0) return r.chunks;
  return r.schedule == "interleaved" ? 2 : 1;
}

planner::schedule_request schedule_request_of(const pipeline_request& r, std::int64_t minibatches) {
  return {.name = r.schedule,
          .replicas = r.replicas,
          .microbatches = r.microbatches,
          .in_flight = r.in_flight,
          .window = r.window,
          .minibatches = minibatches,
          .chunks = chunks_of(r),
          .update_lag = r.update_lag};
}

execution_plan draft_plan(const pipeline_request& request, const model& net) {
  auto asked = schedule_request_of(request, 1);
  const auto dealt = [&] { return asking_the_planner([&] { return planner::resolve_schedule(asked); }); };
  if (request.frozen_until == 0) dealt(); // its faults come before those of cuts
  const auto cuts = cuts_for(request, net);
  const auto is_frozen = [&](std::size_t s) { return s + 1 < cuts.size() && cuts[s + 1] <= request.frozen_until; };
  while (is_frozen(static_cast<std::size_t>(asked.frozen_stages)))
    ++asked.frozen_stages;
  asked.ahead = asked.frozen_stages > 0 ? request.ahead : 0; // they alone run ahead
  const auto dealing = dealt();
  const auto positions = request.replicas.size();
  const auto stages = positions * static_cast<std::size_t>(chunks_of(request));
  if (!request.recompute.empty() && request.recompute.size() != stages)
    throw usage_error("recompute: given for " + std::to_string(request.recompute.size()) + " stages, wanted " +
                      std::to_string(stages));
  if (!request.ranks.empty())
    check_placement({std::numeric_limits<int>::max(), request.ranks}, request.replicas); // how many, settle_plan knows
  execution_plan p;
  p.schedule = request.schedule;
  p.microbatches = dealing.microbatches;
  p.window = request.window;
  p.chunks = chunks_of(request);
  p.threads = request.threads;
  p.frozen_until = request.frozen_until;
  p.ahead = dealing.ahead;
  for (std::size_t s = 0; s < stages; ++s) {
    const auto end = s + 1 < stages ? static_cast<std::size_t>(cuts[s + 1]) : net.layers().size();
    planner::planned_stage stage;
    stage.first_layer = net.layers()[static_cast<std::size_t>(cuts[s])].name;
    stage.last_layer = net.layers()[end - 1].name;
    stage.replicas = request.replicas[s % positions];
    stage.in_flight = dealing.stages[s].credit;
    stage.update_lag = dealing.stages[s].update_lag;
    stage.recompute = !request.recompute.empty() && request.recompute[s] && !is_frozen(s);
    if (!request.ranks.empty()) stage.ranks = request.ranks[s % positions];
    p.stages.push_back(std::move(stage));
  }
  return p;
}

planner::plan_ptr settle_plan(execution_plan p, const model& net, job_place where) {
  first_layers_of(p, net);
  require_freeze(net, p.frozen_until);
  asking_the_planner([&] { planner::settle_frozen(p, layer_names(net)); });
  require_freeze(net, p.frozen_until); // a file says it by name
  if (p.schedule == planner::streaming_schedule)
    throw usage_error("the schedule " + p.schedule + " can only be simulated");
  asking_the_planner([&] {
    planner::check_devices(p);
    planner::settle_schedule(p);
  });
  settle_ranks(p, where.processes);
  if (p.threads == 0) p.threads = std::max(1, usable_cores() / std::max(1, workers_on(p, where.rank)));
  return std::make_shared<const execution_plan>(std::move(p));
}

planner::plan_ptr settle_request(const pipeline_request& request, const model& net, job_place where) {
  return settle_plan(draft_plan(request, net), net, where);
}

placement placement_of(const execution_plan& settled) {
  placement where{std::max(1, settled.processes), {}};
  for (const auto& stage : settled.stages)
    where.rank_of.push_back(stage.ranks.empty() ? std::vector<int>(static_cast<std::size_t>(stage.replicas), 0)
                                                : stage.ranks);
  return where;
}

std::vector<int> first_layers_of(const execution_plan& p, const model& net) {
  const auto layers = layer_names(net);
  if (!p.layer_order.empty() && p.layer_order != layers)
    throw usage_error("the layers of " + net.name() + " are not in the plan's order");
  auto cuts = asking_the_planner([&] { return planner::cuts_of(p, layers); });
  cuts.insert(cuts.begin(), 0);
  return cuts;
}

int rate_replicas_of(const execution_plan& p) {
  return p.stages[static_cast<std::size_t>(planner::frozen_stages_of(p))].replicas;
}

pipeline_request as_request(const execution_plan& given, const model& net) {
  auto p = given;
  asking_the_planner([&] { planner::settle_frozen(p, layer_names(net)); });
  const auto asked = planner::request_of(p, 1);
  pipeline_request r;
  r.schedule = asked.name;
  r.replicas = asked.replicas;
  r.microbatches = asked.microbatches;
  r.in_flight = asked.in_flight;
  if (std::any_of(asked.update_lag.begin(), asked.update_lag.end(), [](auto d) { return d > 0; }))
    r.update_lag = asked.update_lag;
  r.window = asked.window;
  r.chunks = asked.chunks;
  r.threads = p.threads;
  r.frozen_until = p.frozen_until;
  r.ahead = p.ahead;
  r.cuts = first_layers_of(p, net);
  r.cuts.erase(r.cuts.begin());
  for (const auto& stage : p.stages)
    r.recompute.push_back(stage.recompute);
  if (!p.stages.front().ranks.empty()) r.ranks = given_ranks(p);
  return r;
}

int layer_index(const std::string& name, const model& net) {
  const auto& layers = net.layers();
  const auto is_it = [&](const model_layer& l) { return l.name == name; };
  return static_cast<int>(std::find_if(layers.begin(), layers.end(), is_it) - layers.begin());
}

std::vector<std::string> layer_names(const model& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers())
    names.push_back(layer.name);
  return names;
}

} // namespace penstock::actors
