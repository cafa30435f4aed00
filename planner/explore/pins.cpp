// Checks a request against its profile and cluster.
#include "planner/explore/pins.hpp"

#include "planner/explore/streaming.hpp"
#include "planner/presets.hpp"
#include "planner/profile/wording.hpp"
#include "planner/update_lag.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

// Far above any minibatch, and its square still fits.
constexpr std::int64_t most_samples = 1'000'000'000;
constexpr int most_optimizer_copies = 16;

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

std::vector<std::string> layer_names(const profile& p) {
  std::vector<std::string> names;
  for (const auto& layer : p.layers)
    names.push_back(layer.name);
  return names;
}

int layer_named(const profile& p, const std::string& name, const std::string& where) {
  const auto found =
      std::find_if(p.layers.begin(), p.layers.end(), [&](const profile_layer& l) { return l.name == name; });
  if (found == p.layers.end())
    refuse(where + ": no layer " + quoted(name) + " in the profile of " + quoted(p.model) +
           suggestion(name, layer_names(p)));
  return static_cast<int>(found - p.layers.begin());
}

/// Every layer's name and every whole dotted beginning of one.
std::vector<std::string> block_names(const profile& p) {
  std::set<std::string> names;
  for (const auto& layer : p.layers) {
    names.insert(layer.name);
    for (auto dot = layer.name.find('.'); dot != std::string::npos; dot = layer.name.find('.', dot + 1))
      names.insert(layer.name.substr(0, dot));
  }
  return {names.begin(), names.end()};
}

void check_count(const std::string& what, std::int64_t found, std::int64_t least, std::int64_t most) {
  if (found < least || found > most)
    refuse(what + " is " + std::to_string(found) + ", wanted " + std::to_string(least) + " to " + std::to_string(most));
}

std::vector<int> first_layers_of(const profile& p, const plan_request& request) {
  std::vector<int> firsts;
  for (const auto& name : request.first_layers) {
    const auto layer = layer_named(p, name, "first layers");
    if (layer == 0) refuse("first layers: " + quoted(name) + " begins stage 0 already, wanted a later layer");
    if (!firsts.empty() && layer <= firsts.back())
      refuse("first layers: " + quoted(name) + " does not come after " +
             quoted(p.layers[static_cast<std::size_t>(firsts.back())].name) + ", wanted them in the model's order");
    firsts.push_back(layer);
  }
  return firsts;
}

/// The number of stages on which all that was given agrees; 0 if nothing says.
int stages_of(const plan_request& request, const pins& fixed) {
  int stages = 0;
  std::string said_by;
  const auto chunks = static_cast<std::size_t>(std::max(1, request.chunks));
  const auto take_all = [&](std::size_t count, const std::string& by) { // of every chunk
    if (count % chunks != 0)
      refuse(by + " asks for " + std::to_string(count) + " stages, wanted a multiple of the " + std::to_string(chunks) +
             " chunks of each worker position");
    return count / chunks;
  };
  const auto take = [&](std::size_t count, const std::string& by) {
    if (count == 0) return;
    if (stages != 0 && static_cast<int>(count) != stages)
      refuse(by + " asks for " + std::to_string(count) + " stages, " + said_by + " for " + std::to_string(stages) +
             ": wanted one number");
    stages = static_cast<int>(count);
    said_by = by;
  };
  take(static_cast<std::size_t>(request.stages), "stages");
  take(request.replicas.size(), "replicas");
  const auto& in_flight = fixed.in_flight;
  if (!request.first_layers.empty()) take(take_all(request.first_layers.size() + 1, "first layers"), "first layers");
  if (in_flight && in_flight->kind == in_flight_spec::mode::given)
    take(take_all(in_flight->given.size(), "in-flight"), "in-flight");
  if (fixed.update_lag && fixed.update_lag->size() > 1)
    take(take_all(fixed.update_lag->size(), "update-lag"), "update-lag");
  return stages;
}

void check_counts(const profile& p, const plan_request& request, const pins& fixed) {
  check_count("batch", fixed.batch, 1, most_samples);
  check_count("stages", fixed.stages, 0, static_cast<std::int64_t>(p.layers.size()));
  check_count("chunks", fixed.chunks, 0, static_cast<std::int64_t>(p.layers.size()) / std::max(1, fixed.stages));
  if (fixed.stages > fixed.devices)
    refuse("stages is " + std::to_string(fixed.stages) + ", wanted at most the " + std::to_string(fixed.devices) +
           " devices");
  for (std::size_t s = 0; s < fixed.replicas.size(); ++s)
    check_count("replicas of stage " + std::to_string(s), fixed.replicas[s], 1, fixed.devices);
  const auto all = std::accumulate(fixed.replicas.begin(), fixed.replicas.end(), std::int64_t{0});
  if (all > fixed.devices)
    refuse("replicas: " + std::to_string(all) + " over all stages, wanted at most the " +
           std::to_string(fixed.devices) + " devices");
  for (const auto m : request.microbatches)
    check_count("micro-batches", m, 1, fixed.batch);
  check_count("optimizer copies", request.optimizer_copies, 0, most_optimizer_copies);
}

bool is_synchronous(const std::string& schedule) {
  return schedule == fbp_schedule || find_preset(schedule).flush == flush_point::minibatch;
}

void check_schedule_name(const std::string& name, const cluster& c) {
  if (name != fbp_schedule)
    find_preset(name); // throws for an unknown one
  else if (std::any_of(c.devices.begin(), c.devices.end(), [](const device_type& t) { return !t.streaming; }))
    refuse("schedule fbp-as is for streaming devices: the cluster has others, wanted [device.streaming] on every type");
}

/// Where each of its workers can host several stages of a model as what else is pinned has it.
bool takes_interleaved(const cluster& c, const pins& fixed) {
  const bool is_even =
      std::adjacent_find(fixed.replicas.begin(), fixed.replicas.end(), std::not_equal_to<>()) == fixed.replicas.end();
  return c.devices.size() == 1 && is_even && fixed.first_layers.empty() && !fixed.in_flight &&
         !has_streaming_devices(c);
}

/// Vertical sync and naive are there to be compared with, so only by name.
std::vector<std::string> schedules_that_apply(const cluster& c, const pins& fixed, const plan_request& request) {
  std::vector<std::string> names;
  for (const std::string name : {"pipedream", "1f1b", "gpipe", "2bw", "interleaved", "zb-h1", "zb-h2", "data-parallel",
                                 "model-parallel", fbp_schedule}) {
    const bool one_stage_only = name == "data-parallel" || name == "model-parallel";
    if (one_stage_only && fixed.stages > 1) continue;
    if (request.synchronous_only && !is_synchronous(name)) continue;
    // Its bubble vanishes only where one minibatch's updates abut the next one's forwards, stage by stage.
    if (name == "zb-h2" && request.clips_by_global_norm) continue;
    if (name == "interleaved" && !takes_interleaved(c, fixed)) continue;
    if (name == fbp_schedule && !has_streaming_devices(c)) continue;
    if (name == fbp_schedule &&
        std::any_of(c.devices.begin(), c.devices.end(), [](const device_type& t) { return !t.streaming; }))
      continue;
    names.push_back(name);
  }
  return names;
}

bool lags(const pins& fixed) {
  return fixed.update_lag &&
         std::any_of(fixed.update_lag->begin(), fixed.update_lag->end(), [](auto d) { return d > 0; });
}

/// Where a lag is wanted, schedules that have none are left out, but not all of those asked for.
void keep_those_that_lag(pins& fixed) {
  if (!lags(fixed)) return;
  std::erase_if(fixed.schedules,
                [](const std::string& name) { return name == fbp_schedule || !may_lag(find_preset(name)); });
  if (fixed.schedules.empty()) refuse("update-lag: no schedule that may be tried has one, wanted pipedream among them");
}

/// Stages that update apart cannot share a tensor: schedules in which they do are left out, or, where no other may be
/// tried, the layers that share one share a stage.
void keep_ties(const profile& p, pins& fixed) {
  if (p.tied.empty()) return;
  const auto keeps = [](const std::string& name) { return name == "2bw" || is_synchronous(name); };
  if (std::any_of(fixed.schedules.begin(), fixed.schedules.end(), keeps))
    std::erase_if(fixed.schedules, [&](const std::string& name) { return !keeps(name); });
  else
    fixed.together.insert(fixed.together.end(), p.tied.begin(), p.tied.end());
}

void check_schedules(const cluster& c, const plan_request& request, const pins& fixed) {
  for (const auto& name : request.schedules) {
    check_schedule_name(name, c);
    if (request.synchronous_only && !is_synchronous(name))
      refuse("schedule " + name +
             " is asynchronous, wanted a synchronous one: gpipe, 1f1b, interleaved, zb-h1, zb-h2, data-parallel or "
             "model-parallel");
    if (name == "interleaved" && c.devices.size() > 1)
      refuse("interleaved is planned for devices of one type, found " + std::to_string(c.devices.size()));
    if (name == "interleaved" && fixed.chunks == 0 && (!fixed.first_layers.empty() || fixed.in_flight))
      refuse("interleaved with first layers or in-flight given: wanted the chunks of each worker position as well");
    if (name == "data-parallel" && fixed.stages > 1)
      refuse("data-parallel has one stage, found " + std::to_string(fixed.stages));
  }
  // Schedules that take no such M are left out, but not all of those asked for.
  const auto takes = [&](const std::string& name) {
    return name == fbp_schedule || find_preset(name).unit != update_unit::replica_group;
  };
  if (request.schedules.empty() || request.microbatches.empty()) return;
  if (std::any_of(request.schedules.begin(), request.schedules.end(), takes)) return;
  if (std::count(request.microbatches.begin(), request.microbatches.end(), 1) == 0)
    resolve_schedule({.name = request.schedules.front(), .microbatches = request.microbatches.front()}); // throws
}

} // namespace

std::vector<int> layers_named(const profile& p, const std::string& pattern) {
  const std::string where = "keep together " + quoted(pattern);
  std::vector<int> found;
  if (const auto dots = pattern.find(".."); dots != std::string::npos) {
    const auto first = layer_named(p, pattern.substr(0, dots), where);
    const auto last = layer_named(p, pattern.substr(dots + 2), where);
    if (last < first) refuse(where + ": the second layer comes before the first, wanted them in the model's order");
    found.resize(static_cast<std::size_t>(last - first) + 1);
    std::iota(found.begin(), found.end(), first);
    return found;
  }
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    if (p.layers[l].name == pattern || p.layers[l].name.starts_with(pattern + "."))
      found.push_back(static_cast<int>(l));
  if (found.empty())
    refuse(where + ": no layer is called so or begins so in the profile of " + quoted(p.model) +
           suggestion(pattern, block_names(p)));
  return found;
}

pins resolve_pins(const profile& p, const cluster& c, const plan_request& request) {
  pins fixed;
  fixed.batch = request.batch;
  if (request.batch == 0)
    for (const auto& m : p.measurements)
      fixed.batch = std::max(fixed.batch, m.samples);
  const auto all_devices = c.device_count();
  check_count("devices", request.devices, 0, all_devices);
  fixed.devices = request.devices == 0 ? all_devices : request.devices;
  if (!request.in_flight.empty()) fixed.in_flight = parse_in_flight(request.in_flight);
  check_count("stages", request.stages, 0, static_cast<std::int64_t>(p.layers.size()));
  if (!request.update_lag.empty()) fixed.update_lag = parse_update_lag(request.update_lag);
  fixed.stages = stages_of(request, fixed);
  fixed.chunks = request.chunks;
  fixed.replicas = request.replicas;
  fixed.first_layers = first_layers_of(p, request);
  check_counts(p, request, fixed);
  for (const auto& pattern : request.keep_together)
    fixed.together.push_back(layers_named(p, pattern));
  check_schedules(c, request, fixed);
  fixed.chosen_schedules = !request.schedules.empty();
  fixed.schedules = fixed.chosen_schedules ? request.schedules : schedules_that_apply(c, fixed, request);
  keep_ties(p, fixed);
  keep_those_that_lag(fixed);
  return fixed;
}

} // namespace penstock::planner
