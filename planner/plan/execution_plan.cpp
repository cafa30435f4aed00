// Where a plan's stages begin, what schedule it asks for, and whether its devices and ranks can be.
#include "planner/plan/execution_plan.hpp"

#include "planner/profile/wording.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

std::string stage_name(std::size_t s) {
  return "stage " + std::to_string(s);
}

/// Where every layer stands in the plan's order.
std::map<std::string, int> places_of(const execution_plan& p, const std::vector<std::string>& layers) {
  std::map<std::string, int> places;
  for (const auto& layer : layers)
    places.emplace(layer, static_cast<int>(places.size()));
  if (p.layer_order.empty()) return places;
  std::map<std::string, int> ordered;
  for (const auto& layer : p.layer_order) {
    if (!places.contains(layer))
      refuse("layer_order names '" + layer + "', which is no layer of the model" + suggestion(layer, layers));
    if (!ordered.emplace(layer, static_cast<int>(ordered.size())).second)
      refuse("layer_order names '" + layer + "' twice, wanted every layer once");
  }
  for (const auto& layer : layers)
    if (!ordered.contains(layer)) refuse("layer_order lacks '" + layer + "', wanted every layer of the model once");
  return ordered;
}

int place_of(const std::string& layer, std::size_t stage, const char* end, const std::map<std::string, int>& places,
             const std::vector<std::string>& layers) {
  const auto found = places.find(layer);
  if (found == places.end())
    refuse(stage_name(stage) + " " + end + " at '" + layer + "', which is no layer of the model" +
           suggestion(layer, layers));
  return found->second;
}

void check_ranks(const execution_plan& p) {
  const auto positions = positions_of(p);
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& stage = p.stages[s];
    if (stage.ranks != p.stages[s % positions].ranks)
      refuse(stage_name(s) + " has other ranks than " + stage_name(s % positions) +
             ", wanted the same: the same workers host both");
    if (stage.ranks.empty() != p.stages.front().ranks.empty())
      refuse(stage_name(stage.ranks.empty() ? s : 0) + " names no ranks, wanted them on every stage or on none");
    if (stage.ranks.empty()) continue;
    if (stage.ranks.size() != static_cast<std::size_t>(stage.replicas))
      refuse(stage_name(s) + " has " + std::to_string(stage.replicas) + " replicas on " +
             std::to_string(stage.ranks.size()) + " ranks, wanted one rank for each");
    for (const int rank : stage.ranks)
      if (rank < 0 || (p.processes > 0 && rank >= p.processes))
        refuse(stage_name(s) + " names rank " + std::to_string(rank) + ", wanted ranks from 0" +
               (p.processes > 0 ? " to " + std::to_string(p.processes - 1) + ", of the plan's processes" : ""));
  }
}

} // namespace

std::size_t positions_of(const execution_plan& p) {
  const auto chunks = static_cast<std::size_t>(std::max(1, p.chunks));
  if (p.chunks < 1 || p.stages.size() % chunks != 0)
    refuse("chunks is " + std::to_string(p.chunks) + " and the plan has " + std::to_string(p.stages.size()) +
           " stages, wanted as many stages for every worker position");
  const auto positions = p.stages.size() / chunks;
  for (std::size_t s = positions; s < p.stages.size(); ++s)
    if (p.stages[s].replicas != p.stages[s % positions].replicas)
      refuse(stage_name(s) + " has " + std::to_string(p.stages[s].replicas) + " replicas and " +
             stage_name(s % positions) + " has " + std::to_string(p.stages[s % positions].replicas) +
             ", wanted the same: the same workers host both");
  return positions;
}

std::vector<int> cuts_of(const execution_plan& p, const std::vector<std::string>& layers) {
  if (p.stages.empty()) refuse("the plan has no stages, wanted at least one");
  if (layers.empty()) refuse("the model has no layers");
  const auto places = places_of(p, layers);
  const auto& order = p.layer_order.empty() ? layers : p.layer_order;
  std::vector<int> cuts;
  int next = 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& stage = p.stages[s];
    const auto first = place_of(stage.first_layer, s, "begins", places, layers);
    const auto last = place_of(stage.last_layer, s, "ends", places, layers);
    if (s > 0 && next == static_cast<int>(order.size()))
      refuse(stage_name(s) + " begins at '" + stage.first_layer + "', wanted no more stages: " + stage_name(s - 1) +
             " ends at the last layer of all");
    if (first != next)
      refuse(stage_name(s) + " begins at '" + stage.first_layer + "', wanted '" +
             order[static_cast<std::size_t>(next)] + "', " +
             (s == 0 ? "the first layer of all"
                     : "the layer after " + stage_name(s - 1) + "'s last ('" + p.stages[s - 1].last_layer + "')"));
    if (last < first)
      refuse(stage_name(s) + " ends at '" + stage.last_layer + "', which comes before its first layer '" +
             stage.first_layer + "'");
    if (s > 0) cuts.push_back(first);
    next = last + 1;
  }
  if (next != static_cast<int>(order.size()))
    refuse(stage_name(p.stages.size() - 1) + ", the last, ends at '" + p.stages.back().last_layer + "', wanted '" +
           order.back() + "': no stage has '" + order[static_cast<std::size_t>(next)] + "'");
  return cuts;
}

namespace {

/// Where a layer stands in a list that has it, or its size.
int number_of(const std::string& layer, const std::vector<std::string>& order) {
  return static_cast<int>(std::find(order.begin(), order.end(), layer) - order.begin());
}

int stages_before(const execution_plan& p, int layer) {
  const auto is_before = [&](const planned_stage& s) { return number_of(s.last_layer, p.layer_order) < layer; };
  return static_cast<int>(std::find_if_not(p.stages.begin(), p.stages.end(), is_before) - p.stages.begin());
}

void check_frozen_until(int frozen_until, const std::vector<std::string>& order) {
  if (frozen_until < 0 || frozen_until >= static_cast<int>(order.size()))
    refuse("frozen_until is layer " + std::to_string(frozen_until) + " of " + std::to_string(order.size()) +
           ", wanted 0 to " + std::to_string(order.size() - 1) + ": the loss stays active");
}

} // namespace

void settle_frozen(execution_plan& p, const std::vector<std::string>& layers) {
  if (p.frozen_until == 0 && p.first_active.empty()) return;
  const auto& order = p.layer_order.empty() ? layers : p.layer_order;
  check_frozen_until(p.frozen_until, order);
  if (p.first_active.empty()) p.first_active = order[static_cast<std::size_t>(p.frozen_until)];
  const auto found = number_of(p.first_active, order);
  if (found == static_cast<int>(order.size()))
    refuse("frozen_until is '" + p.first_active + "', which is no layer of the model" +
           suggestion(p.first_active, order));
  if (p.frozen_until > 0 && p.frozen_until != found)
    refuse("frozen_until is layer " + std::to_string(p.frozen_until) + ", '" +
           order[static_cast<std::size_t>(p.frozen_until)] + "', and by name '" + p.first_active +
           "', wanted one and the same");
  p.frozen_until = found;
  if (found == 0) p.first_active.clear(); // nothing is before the first layer
  if (found > 0 && p.layer_order.empty()) p.layer_order = layers;
}

bool runs_ahead_by_default(const execution_plan& p) {
  const auto frozen = static_cast<std::size_t>(frozen_stages_of(p));
  return p.ahead == (frozen > 0 ? p.stages[frozen].replicas : 0) || p.ahead == 0;
}

void freeze_until(execution_plan& p, int frozen_until, const std::vector<std::string>& layers) {
  settle_frozen(p, layers);
  cuts_of(p, layers);
  if (p.layer_order.empty()) p.layer_order = layers;
  check_frozen_until(frozen_until, p.layer_order);
  const auto before = stages_before(p, p.frozen_until), after = stages_before(p, frozen_until);
  const bool is_default = runs_ahead_by_default(p);
  for (auto s = std::min(before, after); s < std::max(before, after); ++s) {
    auto& stage = p.stages[static_cast<std::size_t>(s)];
    stage.in_flight = stage.update_lag = 0;
    stage.recompute = false;
  }
  p.frozen_until = frozen_until;
  p.first_active = frozen_until > 0 ? p.layer_order[static_cast<std::size_t>(frozen_until)] : "";
  if (after == 0 || (before != after && is_default)) p.ahead = 0; // as many as the new first active stage has replicas
  if (frozen_until == 0 && p.layer_order == layers) p.layer_order.clear();
}

bool knows_frozen_stages(const execution_plan& p) {
  if (!p.layer_order.empty() || (p.frozen_until == 0 && p.first_active.empty())) return true;
  return std::any_of(p.stages.begin(), p.stages.end(), [&](const auto& s) { return s.first_layer == p.first_active; });
}

int frozen_stages_of(const execution_plan& p) {
  if (p.frozen_until == 0 && p.first_active.empty()) return 0;
  if (!knows_frozen_stages(p))
    refuse("frozen_until is " +
           (p.first_active.empty() ? "layer " + std::to_string(p.frozen_until) : "'" + p.first_active + "'") +
           ", inside a stage as far as the plan says: wanted the first layer of one, or layer_order beside it");
  if (!p.layer_order.empty())
    return stages_before(p, p.frozen_until > 0 ? p.frozen_until : number_of(p.first_active, p.layer_order));
  const auto active =
      std::find_if(p.stages.begin(), p.stages.end(), [&](const auto& s) { return s.first_layer == p.first_active; });
  return static_cast<int>(active - p.stages.begin());
}

std::vector<int> replicas_of(const execution_plan& p) {
  std::vector<int> replicas;
  for (const auto& stage : p.stages)
    replicas.push_back(stage.replicas);
  return replicas;
}

std::int64_t workers_of(const execution_plan& p) {
  std::int64_t workers = 0;
  for (std::size_t position = 0; position < positions_of(p); ++position)
    workers += p.stages[position].replicas;
  return workers;
}

schedule_request request_of(const execution_plan& p, std::int64_t minibatches) {
  schedule_request request{.name = p.schedule,
                           .replicas = {},
                           .microbatches = p.microbatches,
                           .in_flight = {},
                           .window = p.window,
                           .minibatches = minibatches,
                           .chunks = p.chunks,
                           .update_lag = {},
                           .frozen_stages = frozen_stages_of(p),
                           .ahead = p.ahead};
  std::vector<std::int64_t> credits;
  const auto positions = positions_of(p);
  for (const auto& stage : p.stages) {
    if (request.replicas.size() < positions) request.replicas.push_back(stage.replicas);
    request.update_lag.push_back(stage.update_lag);
    credits.push_back(stage.in_flight);
  }
  if (p.schedule == streaming_schedule) {
    request.name = "1f1b";
    const auto tight = tight_credits(request.replicas);
    for (std::size_t s = 0; s < credits.size(); ++s)
      if (credits[s] == 0) credits[s] = 2 * tight[s];
  }
  if (std::all_of(credits.begin(), credits.end(), [](auto k) { return k == 0; })) return request;
  if (std::any_of(credits.begin(), credits.end(), [](auto k) { return k == 0; })) {
    const auto standard = resolve_schedule(request);
    for (std::size_t s = 0; s < credits.size(); ++s)
      if (credits[s] == 0) credits[s] = standard.stages[s].credit;
  }
  request.in_flight = {in_flight_spec::mode::given, std::move(credits)};
  return request;
}

schedule schedule_of(const execution_plan& p, std::int64_t minibatches) {
  return resolve_schedule(request_of(p, minibatches));
}

void settle_schedule(execution_plan& p) {
  const auto s = schedule_of(p);
  p.microbatches = s.microbatches;
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    p.stages[i].in_flight = s.stages[i].credit;
  p.ahead = s.ahead;
}

void check_devices(const execution_plan& p) {
  const auto positions = positions_of(p);
  std::map<std::string, std::size_t> stage_of;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& stage = p.stages[s];
    if (stage.devices.empty() != p.stages.front().devices.empty())
      refuse(stage_name(stage.devices.empty() ? s : 0) + " names no devices, wanted them on every stage or on none");
    if (!stage.devices.empty() && stage.devices.size() != static_cast<std::size_t>(stage.replicas))
      refuse(stage_name(s) + " has " + std::to_string(stage.replicas) + " replicas on " +
             std::to_string(stage.devices.size()) + " devices, wanted one device for each");
    if (s >= positions) {
      if (stage.devices != p.stages[s % positions].devices)
        refuse(stage_name(s) + " has other devices than " + stage_name(s % positions) +
               ", wanted the same: the same workers host both");
      continue;
    }
    for (const auto& device : stage.devices)
      if (const auto [other, fresh] = stage_of.emplace(device, s); !fresh)
        refuse(stage_name(s) + " names the device '" + device + "' of " + stage_name(other->second) +
               " again, wanted a device for each replica");
  }
  check_ranks(p);
}

std::string layers_text(const planned_stage& stage) {
  return stage.first_layer == stage.last_layer ? stage.first_layer : stage.first_layer + " .. " + stage.last_layer;
}

std::string describe_stages(const execution_plan& p) {
  std::string text;
  for (const auto& stage : p.stages) {
    text += (text.empty() ? "" : " | ") + stage.first_layer;
    if (stage.last_layer != stage.first_layer) text += ".." + stage.last_layer;
    text += " x" + std::to_string(stage.replicas);
  }
  if (p.chunks > 1) text += ", " + std::to_string(p.chunks) + " chunks a worker";
  if (!p.first_active.empty()) text += ", frozen before " + p.first_active;
  return text;
}

} // namespace penstock::planner
