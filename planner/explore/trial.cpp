// From a search's partition to a plan in the runtime's terms, checked and simulated.
#include "planner/explore/trial.hpp"

#include "planner/explore/hints.hpp"
#include "planner/presets.hpp"
#include "planner/profile/frozen_costs.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

namespace penstock::planner {

namespace {

std::vector<int> path_of(const candidate& what) {
  std::vector<int> path{what.stages.front().from_state};
  for (const auto& stage : what.stages)
    path.push_back(stage.to_state);
  return path;
}

/// The runtime's threads of a worker: what the types that are used agree on.
int threads_of(const cluster& c, const candidate& what) {
  const auto of = [&](int device) { return c.devices[static_cast<std::size_t>(c.type_of(device))].threads; };
  const auto first = of(what.stages.front().devices.front());
  for (const auto& stage : what.stages)
    if (of(stage.devices.front()) != first) return 0;
  return first;
}

bool only_simulated(const cluster& c, const candidate& what, const std::string& schedule) {
  return schedule == fbp_schedule || std::any_of(what.stages.begin(), what.stages.end(), [&](const stage_choice& s) {
           return c.devices[static_cast<std::size_t>(c.type_of(s.devices.front()))].streaming.has_value();
         });
}

} // namespace

void weigh(trial& t, const cluster& c) {
  const auto& stages = t.made.stages;
  const auto positions = positions_of(t.made);
  for (std::size_t s = 0; s < positions; ++s) {
    // All that its workers host: at most the sum of the stages' peaks, which need not come together.
    double needed = 0;
    for (auto hosted = s; hosted < stages.size(); hosted += positions)
      needed += t.made.predicted->stages[hosted].memory.total;
    t.peak_bytes = std::max(t.peak_bytes, needed);
    const auto& type = c.devices[static_cast<std::size_t>(c.type_of(c.device_named(stages[s].devices.front())))];
    const auto missing = type.memory_bytes > 0 ? needed - type.memory_bytes : 0;
    if (missing <= t.missing_bytes) continue;
    t.missing_bytes = missing;
    t.refused = "misses " + bytes_text(missing) + (t.made.chunks > 1 ? " on worker " : " on stage ") +
                std::to_string(s) + ": needs " + bytes_text(needed) + ", " + type.name + " has " +
                bytes_text(type.memory_bytes);
  }
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit)
    bytes /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, units[unit]);
  return text;
}

int frozen_stages_of(const exploration& e, const candidate& what) {
  const auto frozen = frozen_prefix(e.model);
  const auto active = std::find_if(what.stages.begin(), what.stages.end(), [&](const stage_choice& stage) {
    return e.graph.done_count(stage.to_state) > frozen;
  });
  return static_cast<int>(active - what.stages.begin());
}

plan plan_of(const exploration& e, const candidate& what, const std::string& schedule, int microbatches,
             const std::vector<std::int64_t>& credits) {
  plan made;
  made.model = e.model.model;
  made.model_options = e.model.model_options;
  made.batch = e.batch;
  made.schedule = schedule;
  made.chunks = what.chunks;
  made.microbatches = microbatches;
  made.optimizer_copies = e.optimizer_copies;
  made.threads = threads_of(e.machines, what);
  made.simulation_only = only_simulated(e.machines, what, schedule);
  const auto path = path_of(what);
  const auto name_of = [&](int layer) { return e.model.layers[static_cast<std::size_t>(layer)].name; };
  const auto frozen_stages = static_cast<std::size_t>(frozen_stages_of(e, what));
  made.frozen_until = frozen_prefix(e.model);
  if (frozen_stages > 0) made.ahead = e.ahead;
  if (made.frozen_until > 0 || !e.graph.keeps_profile_order(path))
    for (const auto layer : e.graph.order_of(path))
      made.layer_order.push_back(name_of(layer));
  if (made.frozen_until > 0) made.first_active = made.layer_order[static_cast<std::size_t>(made.frozen_until)];
  for (std::size_t s = 0; s < what.stages.size(); ++s) {
    const auto& choice = what.stages[s];
    const auto layers = e.graph.layers_between(choice.from_state, choice.to_state);
    planned_stage stage;
    stage.first_layer = name_of(layers.front());
    stage.last_layer = name_of(layers.back());
    stage.replicas = static_cast<int>(choice.devices.size());
    for (const auto device : choice.devices)
      stage.devices.push_back(e.machines.device_name(device));
    stage.in_flight = credits[s];
    stage.recompute = s >= frozen_stages && choice.recompute;
    stage.update_lag = s >= frozen_stages ? choice.update_lag : 0;
    made.stages.push_back(std::move(stage));
  }
  return made;
}

bool trains_on(const profile& p, std::int64_t batch, std::int64_t last_batch, std::int64_t microbatches) {
  const auto m = static_cast<int>(microbatches);
  return smallest_microbatch(batch, m) >= p.least_samples &&
         (last_batch <= 0 || smallest_microbatch(last_batch, m) >= p.least_samples);
}

namespace {

// What the runtime would refuse: the columns of a minibatch are dealt to other replicas each time.
std::string refusal_of_columns(const profile& p, const plan& made) {
  if (!hands_on(p) || made.schedule == fbp_schedule) return "";
  if (find_preset(made.schedule).unit == update_unit::replica_group) return "";
  for (const auto& stage : made.stages)
    if (made.microbatches % stage.replicas != 0)
      return std::to_string(stage.replicas) + " replicas do not divide M = " + std::to_string(made.microbatches) +
             ": what " + p.model + " hands from one minibatch to the next would not stay with one of them";
  return "";
}

} // namespace

trial try_plan(const exploration& e, plan made, const std::string& origin) {
  trial t;
  t.origin = origin;
  t.devices = static_cast<int>(workers_of(made));
  const bool is_fbp = made.schedule == fbp_schedule;
  t.synchronous = is_fbp || find_preset(made.schedule).flush == flush_point::minibatch;
  t.made = std::move(made);
  if (!trains_on(e.model, e.batch, e.last_batch, t.made.microbatches)) {
    t.refused = "batch " + std::to_string(e.batch) +
                (e.last_batch > 0 ? " and an epoch's last one of " + std::to_string(e.last_batch) : "") + " in " +
                std::to_string(t.made.microbatches) + (t.made.microbatches == 1 ? " micro-batch" : " micro-batches") +
                ": wanted at least " + std::to_string(e.model.least_samples) + " samples in each, on which " +
                e.model.model + " can be trained";
    return t;
  }
  t.refused = refusal_of_columns(e.model, t.made);
  if (!t.refused.empty()) return t;
  try {
    t.made = predict(t.made, e.model, e.machines);
  } catch (const std::invalid_argument& fault) {
    t.refused = fault.what();
    return t;
  }
  weigh(t, e.machines);
  if (t.runs()) t.parts = parted_group(t.made, e.model);
  return t;
}

double link_periods_of(const exploration& e, const candidate& what, int microbatches, double period) {
  if (period <= 0) return 0;
  const load_table loads(e.model, e.graph, static_cast<double>(e.batch) / microbatches, 1);
  double slowest = 0;
  for (std::size_t s = 1; s < what.stages.size(); ++s)
    slowest = std::max(slowest,
                       transfer_seconds(e.machines, what.stages[s - 1].devices.front(), what.stages[s].devices.front(),
                                        loads.crossing_bytes(what.stages[s].from_state)));
  return slowest / period;
}

} // namespace penstock::planner
