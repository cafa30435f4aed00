// Checks a profile and answers for sizes between the measured ones.
#include "planner/profile/profile.hpp"

#include "planner/profile/wording.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

constexpr double most_seconds = 1e6;
constexpr double most_bytes = 1e15;
constexpr double most_flops = 1e20;
constexpr std::size_t most_layers = 100'000;
constexpr std::int64_t most_samples = 1'000'000'000;
constexpr int most_threads = 65'536;
constexpr std::size_t longest_text = 4096;

struct cost_field {
  const char* name;
  double layer_cost::*value;
  double most;
};

constexpr cost_field cost_fields[] = {
    {"forward_seconds", &layer_cost::forward_seconds, most_seconds},
    {"backward_seconds", &layer_cost::backward_seconds, most_seconds},
    {"accumulate_seconds", &layer_cost::accumulate_seconds, most_seconds},
    {"output_bytes", &layer_cost::output_bytes, most_bytes},
    {"kept_output_bytes", &layer_cost::kept_output_bytes, most_bytes},
    {"kept_bytes", &layer_cost::kept_bytes, most_bytes},
    {"workspace_bytes", &layer_cost::workspace_bytes, most_bytes},
    {"backward_workspace_bytes", &layer_cost::backward_workspace_bytes, most_bytes},
    {"weight_seconds", &layer_cost::weight_seconds, most_seconds},
    {"delayed_bytes", &layer_cost::delayed_bytes, most_bytes},
};

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

void check_number(double value, double most, const std::string& what) {
  if (!std::isfinite(value) || value < 0 || value > most)
    refuse(what + " is " + number_text(value) + ", wanted a number from 0 to " + number_text(most));
}

void check_integer(std::int64_t value, std::int64_t least, std::int64_t most, const std::string& what) {
  if (value < least || value > most)
    refuse(what + " is " + std::to_string(value) + ", wanted " + std::to_string(least) + " to " + std::to_string(most));
}

void check_text(const std::string& text, const std::string& what) {
  if (text.size() > longest_text)
    refuse(what + " has " + std::to_string(text.size()) + " bytes, wanted at most " + std::to_string(longest_text));
  if (!is_plain_text(text)) refuse(what + " is " + quoted(text) + ", wanted UTF-8 without control characters");
}

void check_layers(const profile& p) {
  if (p.layers.empty()) refuse("the profile has no layers");
  if (p.layers.size() > most_layers)
    refuse("the profile has " + std::to_string(p.layers.size()) + " layers, wanted at most " +
           std::to_string(most_layers));
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < p.layers.size(); ++i) {
    const auto& l = p.layers[i];
    const auto which = "layer " + std::to_string(i);
    if (l.name.empty()) refuse(which + " has no name");
    check_text(l.name, "the name of " + which);
    const auto what = "layer " + quoted(l.name);
    if (l.name == "input") refuse(which + " is called 'input', which is the name of the model's input");
    if (!names.insert(l.name).second) refuse(what + " is there twice");
    check_text(l.kind, "the kind of " + what);
    std::set<int> inputs;
    for (const auto producer : l.inputs) {
      if (producer < -1 || producer >= static_cast<int>(i))
        refuse(what + " reads layer " + std::to_string(producer) + ", wanted an earlier one (0 to " +
               std::to_string(i) + " exclusive) or -1 for the model's input");
      if (!inputs.insert(producer).second)
        refuse(what + " reads " +
               (producer < 0 ? "the input" : quoted(p.layers[static_cast<std::size_t>(producer)].name)) +
               " twice, wanted each producer once");
    }
    check_number(l.weight_bytes, most_bytes, what + ": weight_bytes");
    check_number(l.carried_bytes, most_bytes, what + ": carried_bytes");
    check_number(l.forward_flops, most_flops, what + ": forward_flops");
    if (i == 0 && l.fused_with_previous) refuse(what + " is fused with the layer before, and there is none");
  }
}

void check_groups(const profile& p, const std::vector<std::vector<int>>& groups, const std::string& what) {
  for (const auto& group : groups) {
    if (group.size() < 2) refuse("a group of " + what + " has " + std::to_string(group.size()) + ", wanted at least 2");
    for (std::size_t i = 0; i < group.size(); ++i)
      if (group[i] < 0 || group[i] >= static_cast<int>(p.layers.size()) || (i > 0 && group[i] <= group[i - 1]))
        refuse("a group of " + what + " names layer " + std::to_string(group[i]) + ", wanted layers in their order");
  }
}

std::string described(const measurement& m) {
  return "measurement of " + std::to_string(m.samples) + " samples on " + std::to_string(m.threads) +
         (m.threads == 1 ? " thread" : " threads");
}

void check_measurement(const profile& p, const measurement& m) {
  check_integer(m.samples, 1, most_samples, "samples of a measurement");
  check_integer(m.threads, 1, most_threads, "threads of a measurement");
  const auto which = described(m);
  check_number(m.spread, most_seconds, which + ": spread");
  const auto wanted = std::to_string(p.layers.size());
  if (m.layers.size() != p.layers.size())
    refuse(which + " has " + std::to_string(m.layers.size()) + " layers, wanted " + wanted);
  if (!m.update_seconds.empty() && m.update_seconds.size() != p.layers.size())
    refuse(which + " has update_seconds of " + std::to_string(m.update_seconds.size()) + " layers, wanted " + wanted +
           " or none");
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    const auto what = which + ", layer " + quoted(p.layers[i].name) + ": ";
    for (const auto& field : cost_fields)
      check_number(m.layers[i].*field.value, field.most, what + field.name);
    if (const auto& c = m.layers[i]; c.weight_seconds > c.backward_seconds)
      refuse(what + "weight_seconds is " + number_text(c.weight_seconds) + ", wanted at most backward_seconds, " +
             number_text(c.backward_seconds));
    if (!m.update_seconds.empty()) check_number(m.update_seconds[i], most_seconds, what + "update_seconds");
  }
  const bool takes_time =
      std::any_of(m.layers.begin(), m.layers.end(),
                  [](const layer_cost& c) { return c.forward_seconds > 0 || c.backward_seconds > 0; }) ||
      std::any_of(p.layers.begin(), p.layers.end(), [](const profile_layer& l) { return l.forward_flops > 0; });
  if (!takes_time) refuse(which + ": no layer takes any time, wanted one at least that does");
}

/// The measurements that answer for a worker with that many threads, by size.
std::vector<const measurement*> measurements_for(const profile& p, int threads) {
  if (p.measurements.empty()) refuse("the profile has no measurements");
  auto chosen = p.measurements.front().threads;
  if (threads > 0) {
    for (const auto& m : p.measurements)
      chosen = std::min(chosen, m.threads);
    for (const auto& m : p.measurements)
      if (m.threads <= threads) chosen = std::max(chosen, m.threads);
  }
  std::vector<const measurement*> found;
  for (const auto& m : p.measurements)
    if (m.threads == chosen) found.push_back(&m);
  std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->samples < b->samples; });
  return found;
}

/// The line through (low_at, low) and (high_at, high). Beyond its ends it is held between a constant and a proportional
/// cost: noise in two near points must not make a small micro-batch dearer than a larger one, or a time negative.
double on_line(double at, double low_at, double low, double high_at, double high) {
  const auto value = std::lerp(low, high, (at - low_at) / (high_at - low_at));
  if (at < low_at) return std::clamp(value, low * (at / low_at), low);
  if (at > high_at) return std::clamp(value, high, high * (at / high_at));
  return value;
}

} // namespace

double usual_weight_seconds(const profile_layer& layer, const layer_cost& cost) {
  return layer.weight_bytes > 0 ? cost.backward_seconds / 2 : 0;
}

double usual_delayed_bytes(const profile& p, const measurement& m, std::size_t layer) {
  if (p.layers[layer].weight_bytes <= 0) return 0;
  auto bytes = m.layers[layer].output_bytes;
  for (const auto input : p.layers[layer].inputs)
    if (input >= 0) bytes += m.layers[static_cast<std::size_t>(input)].output_bytes; // the model's input is nobody's
  return bytes;
}

bool hands_on(const profile& p) {
  return std::any_of(p.layers.begin(), p.layers.end(), [](const profile_layer& l) { return l.carried_bytes > 0; });
}

void check_profile(const profile& p) {
  check_text(p.model, "the profile's model");
  check_text(p.model_options, "the profile's model_options");
  check_integer(p.input_bytes_per_sample, 0, static_cast<std::int64_t>(most_bytes), "input_bytes_per_sample");
  for (const auto& [key, value] : p.machine) {
    check_text(key, "a key of the profile's machine");
    check_text(value, "the profile's machine, " + quoted(key));
  }
  for (const auto& text : p.doubts)
    check_text(text, "a doubt of the profile");
  check_layers(p);
  check_groups(p, p.tied, "tied layers");
  check_groups(p, p.kept_together, "layers kept together");
  if (p.measurements.empty()) refuse("the profile has no measurements");
  std::set<std::pair<std::int64_t, int>> seen;
  for (const auto& m : p.measurements) {
    check_measurement(p, m);
    if (!seen.emplace(m.samples, m.threads).second) refuse(described(m) + " is there twice");
  }
}

std::vector<layer_cost> costs_at(const profile& p, double samples, int threads) {
  if (!std::isfinite(samples) || samples < 0)
    refuse("a micro-batch has " + number_text(samples) + " samples, wanted a number of at least 0");
  const auto measured = measurements_for(p, threads);
  std::vector<layer_cost> costs(p.layers.size());
  if (samples == 0) return costs;
  const auto size = [&](std::size_t i) { return static_cast<double>(measured[i]->samples); };
  std::size_t high = 1; // of the pair of measurements whose line is read
  while (high + 1 < measured.size() && size(high) < samples)
    ++high;
  for (std::size_t i = 0; i < costs.size(); ++i)
    for (const auto& field : cost_fields) {
      const auto cost = [&](std::size_t m) { return measured[m]->layers[i].*field.value; };
      costs[i].*field.value = measured.size() == 1
                                  ? cost(0) * (samples / size(0))
                                  : on_line(samples, size(high - 1), cost(high - 1), size(high), cost(high));
    }
  for (auto& c : costs) // two lines of their own: the part stays one of the whole
    c.weight_seconds = std::min(c.weight_seconds, c.backward_seconds);
  return costs;
}

std::vector<double> update_seconds_at(const profile& p, int threads) {
  std::vector<double> medians(p.layers.size());
  const auto measured = measurements_for(p, threads);
  for (std::size_t i = 0; i < medians.size(); ++i) {
    std::vector<double> times;
    for (const auto* m : measured)
      if (!m->update_seconds.empty()) times.push_back(m->update_seconds[i]);
    if (times.empty()) continue;
    std::sort(times.begin(), times.end());
    medians[i] = std::midpoint(times[(times.size() - 1) / 2], times[times.size() / 2]);
  }
  return medians;
}

std::vector<std::string> names_of(const profile& p) {
  std::vector<std::string> names;
  for (const auto& layer : p.layers)
    names.push_back(layer.name);
  return names;
}

profile scaled(profile p, double factor) {
  p.input_bytes_per_sample = static_cast<std::int64_t>(static_cast<double>(p.input_bytes_per_sample) * factor);
  for (auto& l : p.layers)
    l.forward_flops *= factor;
  for (auto& m : p.measurements)
    for (auto& cost : m.layers)
      for (const auto part :
           {&layer_cost::forward_seconds, &layer_cost::backward_seconds, &layer_cost::accumulate_seconds,
            &layer_cost::output_bytes, &layer_cost::kept_output_bytes, &layer_cost::kept_bytes,
            &layer_cost::workspace_bytes, &layer_cost::backward_workspace_bytes, &layer_cost::weight_seconds,
            &layer_cost::delayed_bytes})
        cost.*part *= factor;
  check_profile(p);
  return p;
}

} // namespace penstock::planner
