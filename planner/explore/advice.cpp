// Lifts the request's restrictions one by one until something fits.
#include "planner/explore/advice.hpp"

#include "planner/explore/choose.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

namespace penstock::planner {

namespace {

// Enough to know whether something fits.
constexpr std::size_t few = 4;
constexpr int most_devices = 64;

std::string shape_text(const plan& p) {
  return describe_stages(p) + ", " + p.schedule + ", M = " + std::to_string(p.microbatches);
}

/// The winner under another request; none where nothing fits there either.
std::optional<plan> winner_under(const profile& p, const cluster& c, plan_request request) {
  request.top = few;
  try {
    const auto trials = explorer(p, c, request).run();
    if (const auto winner = winner_of(trials); winner >= 0) return trials[static_cast<std::size_t>(winner)].made;
  } catch (const std::invalid_argument&) {
    // The lists of a request belong together: without one of them the others may make no sense.
  }
  return std::nullopt;
}

struct relief {
  std::string name;
  std::function<bool(plan_request&)> lift; ///< false where the request does not restrict that
};

std::vector<relief> reliefs() {
  return {{"with recomputation",
           [](plan_request& r) {
             const bool restricts = !r.allow_recompute;
             r.allow_recompute = true;
             return restricts;
           }},
          {"with fewer in flight",
           [](plan_request& r) {
             const bool restricts = !r.in_flight.empty();
             r.in_flight.clear();
             return restricts;
           }},
          {"with another schedule, so fewer in flight",
           [](plan_request& r) {
             const bool restricts = !r.schedules.empty();
             r.schedules.clear();
             return restricts;
           }},
          {"with other micro-batches",
           [](plan_request& r) {
             const bool restricts = !r.microbatches.empty();
             r.microbatches.clear();
             return restricts;
           }},
          {"with other stages and replicas",
           [](plan_request& r) {
             const bool restricts = r.stages > 0 || !r.replicas.empty() || !r.first_layers.empty();
             r.stages = 0;
             r.chunks = 0;
             r.replicas.clear();
             r.first_layers.clear();
             return restricts;
           }},
          {"on more of the devices, so with more stages",
           [](plan_request& r) {
             const bool restricts = r.devices > 0;
             r.devices = 0;
             return restricts;
           }},
          {"without keeping layers together", [](plan_request& r) {
             const bool restricts = !r.keep_together.empty();
             r.keep_together.clear();
             return restricts;
           }}};
}

/// So many times the devices of the last type, all joined as the outermost level joins them.
cluster grown(cluster c, int factor) {
  c.devices.back().count += c.device_count() * (factor - 1);
  auto joining = c.levels.back();
  joining.group = c.device_count();
  c.levels = {joining};
  return c;
}

/// Weights, gradients and optimizer state of one layer: no stage that has it needs less.
std::string too_large_layer(const profile& p, const cluster& c, const plan_request& request) {
  double most = 0;
  for (const auto& type : c.devices)
    most = std::max(most, type.memory_bytes > 0 ? type.memory_bytes : INFINITY);
  for (const auto& layer : p.layers)
    if (const auto needed = layer.weight_bytes * (2 + request.optimizer_copies); needed > most)
      return "layer '" + layer.name + "' alone needs " + bytes_text(needed) +
             " for weights, gradients and optimizer state, so nothing but larger devices would fit";
  return "";
}

std::string more_devices(const profile& p, const cluster& c, plan_request request) {
  if (const auto layer = too_large_layer(p, c, request); !layer.empty()) return "; " + layer;
  request.schedules = {"1f1b"}; // holds one version, and as few activations as any
  for (int factor = 2; c.device_count() * factor <= most_devices; factor *= 2)
    if (const auto found = winner_under(p, grown(c, factor), request)) {
      return "; would fit: more stages, on " + std::to_string(workers_of(*found)) + " devices (" + shape_text(*found) +
             ")";
    }
  return "; neither recomputation, fewer in flight nor more stages would fit";
}

} // namespace

std::string advice(const profile& p, const cluster& c, const plan_request& request, const trial& best) {
  auto text = "nothing fits: the best (" + shape_text(best.made) + ") " + best.refused;
  std::string would_fit;
  auto all_lifted = request;
  for (const auto& r : reliefs()) {
    auto lifted = request;
    if (!r.lift(lifted)) continue;
    r.lift(all_lifted);
    if (const auto found = winner_under(p, c, lifted))
      would_fit += (would_fit.empty() ? "" : "; ") + r.name + " (" + shape_text(*found) + ")";
  }
  if (!would_fit.empty()) return text + "; would fit: " + would_fit;
  if (const auto found = winner_under(p, c, all_lifted))
    return text + "; would fit: without any of the request's limits (" + shape_text(*found) + ")";
  return text + more_devices(p, c, all_lifted);
}

std::string why_none(const explorer& e, const plan_request& request) {
  const auto& fixed = e.fixed();
  for (const auto& name : fixed.schedules) {
    if (name == fbp_schedule) continue;
    schedule_request wanted{.name = name};
    wanted.replicas = fixed.replicas;
    if (wanted.replicas.empty()) wanted.replicas.assign(static_cast<std::size_t>(std::max(1, fixed.stages)), 1);
    if (!request.microbatches.empty()) wanted.microbatches = request.microbatches.front();
    if (fixed.in_flight) wanted.in_flight = *fixed.in_flight;
    try {
      resolve_schedule(wanted);
    } catch (const std::invalid_argument& fault) {
      return fault.what();
    }
  }
  return "stages is " + std::to_string(std::max(1, fixed.stages)) + ", but the model can be cut in " +
         std::to_string(e.places_to_cut()) + " places only: wanted fewer stages or fewer layers kept together";
}

} // namespace penstock::planner
