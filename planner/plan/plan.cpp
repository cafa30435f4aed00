// What a plan says in words, and whether it can run.
#include "planner/plan/plan.hpp"

#include "planner/check_schedule.hpp"
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

// An action takes 24 bytes; a plan whose shortest schedule has more is a mistyped number.
constexpr std::int64_t most_actions = 10'000'000;

// BaPipe's schedule for streaming devices: forward and backward at once, twice the features of 1F1B (arXiv 2012.12544,
// Table 1). The generator makes its order of work, 1F1B with doubled credits, not its concurrency.
constexpr std::string_view streaming_schedule = "fbp-as";

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

std::string stage_name(std::size_t s) {
  return "stage " + std::to_string(s);
}

/// Where every layer stands in the plan's order.
std::map<std::string, int> places_of(const plan& p, const std::vector<std::string>& layers) {
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

void check_devices(const plan& p) {
  std::map<std::string, std::size_t> stage_of;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& stage = p.stages[s];
    if (stage.devices.empty() != p.stages.front().devices.empty())
      refuse(stage_name(stage.devices.empty() ? s : 0) + " names no devices, wanted them on every stage or on none");
    if (!stage.devices.empty() && stage.devices.size() != static_cast<std::size_t>(stage.replicas))
      refuse(stage_name(s) + " has " + std::to_string(stage.replicas) + " replicas on " +
             std::to_string(stage.devices.size()) + " devices, wanted one device for each");
    for (const auto& device : stage.devices)
      if (const auto [other, fresh] = stage_of.emplace(device, s); !fresh)
        refuse(stage_name(s) + " names the device '" + device + "' of " + stage_name(other->second) +
               " again, wanted a device for each replica");
  }
}

/// Enough to fill the pipeline and to go once round its replicas, as far as the actions stay few.
std::int64_t minibatches_to_check(const schedule& s) {
  const auto per_minibatch = static_cast<std::int64_t>(s.microbatches) * static_cast<std::int64_t>(s.stages.size());
  std::int64_t most = 0;
  for (const auto& stage : s.stages)
    most = std::max({most, stage.credit * stage.replicas, static_cast<std::int64_t>(stage.replicas)});
  const auto wanted = 2 + 2 * most / s.microbatches;
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most_actions / 50 / per_minibatch));
}

} // namespace

std::vector<int> cuts_of(const plan& p, const std::vector<std::string>& layers) {
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

schedule_request request_of(const plan& p, std::int64_t minibatches) {
  schedule_request request{.name = p.schedule,
                           .replicas = {},
                           .microbatches = p.microbatches,
                           .in_flight = {},
                           .window = p.window,
                           .minibatches = minibatches};
  std::vector<std::int64_t> credits;
  for (const auto& stage : p.stages) {
    request.replicas.push_back(stage.replicas);
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

plan settled(plan p) {
  const auto s = resolve_schedule(request_of(p, 1));
  p.microbatches = s.microbatches;
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    p.stages[i].in_flight = s.stages[i].credit;
  return p;
}

void check_plan(const plan& p) {
  if (p.stages.empty()) refuse("the plan has no stages, wanted at least one");
  check_devices(p);
  if (p.schedule == streaming_schedule && !p.simulation_only)
    refuse("the schedule fbp-as needs devices that compute forward and backward at once: wanted simulation_only");
  auto request = request_of(p, 1);
  const auto shape = resolve_schedule(request);
  const auto actions = static_cast<std::int64_t>(shape.microbatches) * static_cast<std::int64_t>(p.stages.size());
  if (actions > most_actions)
    refuse(std::to_string(shape.microbatches) + " micro-batches on " + std::to_string(p.stages.size()) +
           " stages are " + std::to_string(actions) + " forwards a minibatch, wanted at most " +
           std::to_string(most_actions));
  request.minibatches = minibatches_to_check(shape);
  if (const auto fault = check_schedule(make_schedule(request))) refuse("the schedule cannot run: " + *fault);
}

std::string describe_stages(const plan& p) {
  std::string text;
  for (const auto& stage : p.stages) {
    text += (text.empty() ? "" : " | ") + stage.first_layer;
    if (stage.last_layer != stage.first_layer) text += ".." + stage.last_layer;
    text += " x" + std::to_string(stage.replicas);
  }
  return text;
}

} // namespace penstock::planner
