// The plan as it is against the best that the same search finds on the frozen table.
#include "planner/explore/repack.hpp"

#include "planner/explore/trial.hpp"
#include "planner/presets.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& wanted) {
  throw std::invalid_argument(what + " is " + found + ", wanted " + wanted);
}

void check(const plan& current, const freeze_point& at) {
  if (current.stages.empty()) throw std::invalid_argument("the plan has no stages, wanted at least one");
  if (current.batch < 1) refuse("batch", std::to_string(current.batch), "at least 1");
  if (at.steps_left < 0) refuse("the number of steps left", std::to_string(at.steps_left), "at least 0");
  if (!std::isfinite(at.change_seconds) || at.change_seconds < 0)
    refuse("the cost of a change", std::to_string(at.change_seconds), "seconds, at least 0");
}

/// "", where they are none of these; every one of them is what the schedule's own default or a mode gives.
std::string credit_mode(const plan& current) {
  auto asked = request_of(current, 1);
  const auto own = resolve_schedule(asked);
  const auto is_like = [&](const schedule& other) {
    return std::equal(own.stages.begin() + own.frozen_stages, own.stages.end(),
                      other.stages.begin() + own.frozen_stages,
                      [](const auto& a, const auto& b) { return a.credit == b.credit; });
  };
  for (const auto* mode : {"tight", "double", "full"}) {
    asked.in_flight = parse_in_flight(mode);
    try {
      if (is_like(resolve_schedule(asked))) return mode;
    } catch (const std::invalid_argument&) {
      continue; // 2bw's M is too small for it, so it is another
    }
  }
  return "";
}

plan_request request_for(const plan& current, const freeze_point& at, const profile& p) {
  plan_request request;
  request.batch = current.batch;
  request.schedules = {current.schedule};
  request.microbatches = {schedule_of(current).microbatches};
  if (at.frozen_until > 0) request.frozen_until = p.layers[static_cast<std::size_t>(at.frozen_until)].name;
  if (!runs_ahead_by_default(current)) request.ahead = current.ahead;
  request.optimizer_copies = current.optimizer_copies;
  const auto& preset = find_preset(current.schedule);
  if (preset.order == action_order::chunks_in_turn)
    request.chunks = current.chunks;
  else
    request.in_flight = credit_mode(current);
  std::int64_t lag = 0;
  for (const auto& stage : current.stages)
    lag = std::max(lag, stage.update_lag);
  request.update_lag = std::to_string(lag);
  return request;
}

std::optional<plan> found(const profile& p, const cluster& c, const plan_request& request) {
  try {
    return make_plan(p, c, request);
  } catch (const std::invalid_argument&) {
    return std::nullopt; // nothing of that shape fits
  }
}

/// All numbers of stages with the replicas that every stage has now.
std::optional<plan> fastest_with(int replicas, const profile& p, const cluster& c, plan_request request) {
  std::optional<plan> best;
  const auto places = c.device_count() / replicas;
  for (int stages = 1; stages <= std::min(places, static_cast<int>(p.layers.size())); ++stages) {
    request.replicas.assign(static_cast<std::size_t>(stages), replicas);
    auto made = found(p, c, request);
    if (made && (!best || made->predicted->step_seconds < best->predicted->step_seconds)) best = std::move(made);
  }
  return best;
}

std::optional<plan> best_other(const profile& p, const cluster& c, const plan& current, const freeze_point& at) {
  const auto request = request_for(current, at, p);
  if (at.replicas_free) return found(p, c, request);
  const auto replicas = replicas_of(current);
  if (std::any_of(replicas.begin(), replicas.end(), [&](int r) { return r != replicas.front(); })) return std::nullopt;
  return fastest_with(replicas.front(), p, c, request);
}

bool names_devices_of(const cluster& c, const plan& p) {
  try {
    for (const auto& stage : p.stages)
      for (const auto& device : stage.devices)
        c.device_named(device);
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

/// With its prediction alone from elsewhere, where its devices are not the cluster's.
plan predicted_as_is(const plan& as_is, const profile& p, const cluster& c) {
  trial t{.made = as_is};
  if (!names_devices_of(c, as_is))
    for (auto& stage : t.made.stages) {
      stage.devices.clear();
      stage.ranks.clear();
    }
  t.made = predict(t.made, p, c);
  weigh(t, c);
  if (!t.runs()) throw std::invalid_argument(t.refused);
  auto result = settled(as_is);
  result.predicted = std::move(t.made.predicted);
  return result;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

std::string reason_of(const repacking& r, const freeze_point& at) {
  const auto step = [](const plan& p) { return seconds_text(p.predicted->step_seconds) + " a step"; };
  if (!r.as_is.predicted) return describe_stages(r.best) + ", " + step(r.best) + ": the stages as they are cannot run";
  if (r.saving_seconds <= 0) return "as it is, " + step(r.as_is) + ": nothing that may be changed to is faster";
  return describe_stages(r.best) + " would take " + step(r.best) + ", as it is " + step(r.as_is) + ": " +
         seconds_text(r.saving_seconds) + " saved over " + std::to_string(at.steps_left) + " steps, a change costs " +
         seconds_text(at.change_seconds);
}

} // namespace

repacking repack(const profile& p, const cluster& c, const plan& current, const freeze_point& at) {
  check(current, at);
  repacking r;
  r.as_is = current;
  r.as_is.predicted.reset();
  r.as_is.runner_up.reset();
  r.as_is.considered.clear();
  freeze_until(r.as_is, at.frozen_until, names_of(p));
  std::string fault;
  try {
    r.as_is = predicted_as_is(r.as_is, p, c);
  } catch (const std::invalid_argument& refused) {
    fault = refused.what();
  }
  const auto other = best_other(p, c, current, at);
  if (!other && !r.as_is.predicted) throw std::invalid_argument(fault);
  const bool is_faster =
      other && (!r.as_is.predicted || other->predicted->step_seconds < r.as_is.predicted->step_seconds);
  r.best = is_faster ? *other : r.as_is;
  if (r.best.threads == 0) r.best.threads = current.threads;
  if (r.as_is.predicted)
    r.saving_seconds =
        (r.as_is.predicted->step_seconds - r.best.predicted->step_seconds) * static_cast<double>(at.steps_left);
  r.is_worth_it = !r.as_is.predicted || r.saving_seconds > at.change_seconds;
  r.reason = reason_of(r, at);
  return r;
}

} // namespace penstock::planner
