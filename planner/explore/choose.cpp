// Ranks the trials and puts the ranking into words.
#include "planner/explore/choose.hpp"

#include "planner/explore/hints.hpp"
#include "planner/presets.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace penstock::planner {

namespace {

// Differences below what any prediction is worth.
constexpr double tie = 0.005;
constexpr std::size_t most_left_aside = 3; // rows of them

std::string percent_text(double ratio) {
  const auto percent = 100 * (ratio - 1);
  char text[32];
  std::snprintf(text, sizeof text, percent < 10 ? "%.1f%%" : "%.0f%%", percent);
  return text;
}

std::string times_text(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", factor);
  return text;
}

bool is_data_parallel(const plan& p) {
  return p.stages.size() == 1 && p.stages.front().replicas > 1;
}

/// A partition, schedule and M; credits, lag and origin aside.
std::string identity(const trial& t) {
  return describe_stages(t.made) + "/" + std::to_string(t.made.chunks) + "/" + t.made.schedule + "/" +
         std::to_string(t.made.microbatches);
}

/// Updates that all replicas together read later than they might.
std::int64_t lag_of(const trial& t) {
  std::int64_t sum = 0;
  for (const auto& stage : t.made.stages)
    sum += stage.update_lag * stage.replicas;
  return sum;
}

plan_summary row_of(const trial& t) {
  plan_summary row;
  row.text = describe_stages(t.made);
  row.origin = t.origin;
  row.schedule = t.made.schedule;
  row.microbatches = t.made.microbatches;
  row.peak_bytes = t.peak_bytes;
  row.rejected = t.refused;
  for (const auto& stage : t.made.stages) {
    row.in_flight.push_back(stage.in_flight);
    if (lag_of(t) > 0) row.update_lag.push_back(stage.update_lag);
    row.recompute = row.recompute || stage.recompute;
  }
  if (const auto& predicted = t.made.predicted) {
    row.step_seconds = predicted->step_seconds;
    row.bubble = predicted->bubble;
    row.bytes_per_minibatch = predicted->bytes_per_minibatch;
    row.data_parallel_bytes_per_minibatch = predicted->data_parallel_bytes_per_minibatch;
    row.binding = predicted->binding;
  }
  return row;
}

/// Micro-batches that all replicas together may hold: what more of them buys is worth nothing among equals, and in
/// asynchronous schedules they are staler.
std::int64_t in_flight_of(const trial& t) {
  std::int64_t sum = 0;
  for (const auto& stage : t.made.stages)
    sum += stage.in_flight * stage.replicas;
  return sum;
}

/// For what it parts, whatever its speed.
bool is_left_aside(const trial& t, const trial& winner) {
  return !t.keeps_hints() && winner.keeps_hints();
}

std::string why_not(const trial& t, const trial& winner) {
  if (!t.runs()) return t.refused;
  const auto ratio = t.step_seconds() / winner.step_seconds();
  if (ratio > 1 + tie) return percent_text(ratio) + " slower";
  if (is_left_aside(t, winner))
    return (ratio < 1 / (1 + tie) ? "only " + percent_text(1 / ratio) + " faster, and parts " : "as fast, but parts ") +
           t.parts;
  if (t.devices > winner.devices)
    return "as fast, on " + std::to_string(t.devices) + " devices instead of " + std::to_string(winner.devices);
  if (!t.synchronous && winner.synchronous) return "as fast, but stale";
  if (lag_of(t) > lag_of(winner)) return "as fast, with more update lag";
  if (in_flight_of(t) > in_flight_of(winner))
    return "as fast, with " + std::to_string(in_flight_of(t)) + " in flight instead of " +
           std::to_string(in_flight_of(winner));
  const auto holds = bytes_text(t.peak_bytes), wanted = bytes_text(winner.peak_bytes);
  return holds == wanted ? "as fast" : "as fast, holds " + holds + " instead of " + wanted;
}

using indices = std::vector<std::size_t>;

int winner_among(const std::vector<trial>& trials, const indices& some) {
  double least = INFINITY;
  for (const auto i : some)
    if (trials[i].runs()) least = std::min(least, trials[i].step_seconds());
  const auto rank = [](const trial& t) {
    return std::tuple(t.devices, !t.synchronous, lag_of(t), in_flight_of(t), t.peak_bytes, t.step_seconds());
  };
  int best = -1;
  for (const auto i : some) {
    if (!trials[i].runs() || trials[i].step_seconds() > least * (1 + tie)) continue;
    if (best < 0 || rank(trials[i]) < rank(trials[static_cast<std::size_t>(best)])) best = static_cast<int>(i);
  }
  return best;
}

indices all_of(const std::vector<trial>& trials) {
  indices all(trials.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Of each identity the one that would win among its own, or that misses least where none runs. Those that run by
/// speed, then the others; ties in the order of trying.
indices best_of_each(const std::vector<trial>& trials) {
  std::map<std::string, indices> groups;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (trials[i].made.predicted) groups[identity(trials[i])].push_back(i);
  indices best;
  for (const auto& [_, group] : groups)
    if (const auto winner = winner_among(trials, group); winner >= 0)
      best.push_back(static_cast<std::size_t>(winner));
    else
      best.push_back(*std::min_element(group.begin(), group.end(), [&](std::size_t a, std::size_t b) {
        return trials[a].missing_bytes < trials[b].missing_bytes;
      }));
  std::sort(best.begin(), best.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(!trials[a].runs(), trials[a].step_seconds(), a) <
           std::tuple(!trials[b].runs(), trials[b].step_seconds(), b);
  });
  return best;
}

const trial* fastest(const std::vector<trial>& trials, bool data_parallel, const trial& except) {
  const trial* best = nullptr;
  for (const auto& t : trials)
    if (t.runs() && t.devices > 1 && is_data_parallel(t.made) == data_parallel && identity(t) != identity(except) &&
        !is_left_aside(t, except) && (!best || t.step_seconds() < best->step_seconds()))
      best = &t;
  return best;
}

std::string against(const trial* other, const trial& winner, const std::string& what) {
  if (!other) return "";
  const auto ratio = other->step_seconds() / winner.step_seconds();
  auto text = what + " (" + describe_stages(other->made) + ", " + other->made.schedule;
  if (other->made.microbatches > 1) text += ", M = " + std::to_string(other->made.microbatches);
  text += ")";
  if (ratio <= 1 + tie) return ", as fast as " + text;
  return ", " + percent_text(ratio) + " faster than " + text;
}

double least_seconds(const std::vector<trial>& trials, bool keeping_hints) {
  double least = INFINITY;
  for (const auto& t : trials)
    if (t.runs() && t.keeps_hints() == keeping_hints) least = std::min(least, t.step_seconds());
  return least;
}

/// What the model keeps together, where it made a difference: of the plans that keep it and those that part it the
/// faster ones are others'.
std::string hint_text(const std::vector<trial>& trials, const trial& winner) {
  const auto whole = least_seconds(trials, true), parted = least_seconds(trials, false);
  if (whole == INFINITY || parted == INFINITY) return "";
  if (!winner.keeps_hints())
    return "; parts " + winner.parts + ", which the model keeps together: the best plan that parts nothing takes " +
           percent_text(whole / parted) + " longer";
  const auto& other = trials[static_cast<std::size_t>(winner_among(trials, all_of(trials)))];
  if (other.keeps_hints()) return "";
  return "; keeps " + other.parts + " together, as the model has it: a plan that parts it is " +
         (whole > parted * (1 + tie) ? "only " + percent_text(whole / parted) + " faster" : "as fast");
}

std::string reason_of(const std::vector<trial>& trials, const trial& winner) {
  const auto& predicted = *winner.made.predicted;
  const auto* pipeline = fastest(trials, false, winner);
  const auto* replicated = fastest(trials, true, winner);
  const auto speedup = times_text(predicted.speedup_over_one_device) + " one device";
  std::string text;
  if (is_data_parallel(winner.made))
    text = "data parallelism: " + std::to_string(winner.devices) + " replicas of the whole model, " + speedup +
           against(pipeline, winner, "the best pipeline");
  else if (winner.devices == 1)
    text = "one device: nothing that was tried is faster on more" + against(pipeline, winner, "the best pipeline") +
           against(replicated, winner, "data parallelism");
  else
    text = "fastest of " + std::to_string(trials.size()) + " simulated plans: " + speedup +
           against(pipeline, winner, "the next pipeline") + against(replicated, winner, "data parallelism");
  if (!predicted.binding.empty()) text += "; " + predicted.binding + " binds";
  return text + hint_text(trials, winner);
}

/// What is alike but for where it is cut.
std::string shape_of(const trial& t) {
  std::string shape = t.made.schedule + "/" + std::to_string(t.made.chunks) + "/" + std::to_string(t.made.microbatches);
  for (const auto& stage : t.made.stages)
    shape += "/" + std::to_string(stage.replicas);
  return shape;
}

} // namespace

int winner_of(const std::vector<trial>& trials) {
  const auto best = winner_among(trials, all_of(trials));
  if (best < 0 || trials[static_cast<std::size_t>(best)].keeps_hints()) return best;
  indices whole;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (trials[i].keeps_hints()) whole.push_back(i);
  const bool is_worth_it = least_seconds(trials, true) > worth_parting * least_seconds(trials, false);
  return is_worth_it ? best : winner_among(trials, whole);
}

plan explained(const std::vector<trial>& trials, int winner, std::size_t rows) {
  const auto& best = trials[static_cast<std::size_t>(winner)];
  auto result = best.made;
  result.reason = reason_of(trials, best);
  result.considered = {row_of(best)};
  std::set<std::string> schedules{best.made.schedule}, origins{best.origin};
  std::size_t left_aside = 0;
  for (const auto i : best_of_each(trials)) {
    const auto& t = trials[i];
    if (identity(t) == identity(best)) continue;
    const bool is_parted = t.runs() && is_left_aside(t, best) && t.step_seconds() <= best.step_seconds() * (1 + tie);
    if (is_parted && ++left_aside > most_left_aside) continue;
    const bool is_first_of_kind = !schedules.contains(t.made.schedule) || !origins.contains(t.origin);
    if (result.considered.size() >= rows && !is_first_of_kind) continue;
    schedules.insert(t.made.schedule);
    origins.insert(t.origin);
    auto row = row_of(t);
    row.rejected = why_not(t, best);
    if (t.runs() && !is_parted && !result.runner_up) result.runner_up = row;
    result.considered.push_back(std::move(row));
  }
  return result;
}

std::vector<plan> contenders(const std::vector<trial>& trials, int winner, std::size_t rows, std::size_t most) {
  const auto& best = trials[static_cast<std::size_t>(winner)];
  std::vector<plan> plans{explained(trials, winner, rows)};
  std::set<std::string> shapes{shape_of(best)};
  indices further;
  const auto add = [&](const trial& t) {
    if (plans.size() >= most) return;
    plans.push_back(t.made);
    plans.back().reason = why_not(t, best) + " by simulation";
  };
  for (const auto i : best_of_each(trials)) {
    const auto& t = trials[i];
    if (!t.runs() || identity(t) == identity(best) || is_left_aside(t, best)) continue;
    if (shapes.insert(shape_of(t)).second)
      add(t);
    else
      further.push_back(i);
  }
  for (const auto i : further)
    add(trials[i]);
  return plans;
}

} // namespace penstock::planner
