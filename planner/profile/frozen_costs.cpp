// Takes backward, updates and all that serves them from layers at the front.
#include "planner/profile/frozen_costs.hpp"

#include "planner/profile/wording.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

/// Which layers something asks a gradient of: those with weights of their own that are trained, and all behind them.
std::vector<bool> trained(const profile& p, const std::vector<bool>& frozen) {
  std::vector<bool> wants(p.layers.size());
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    wants[l] = (!frozen[l] && p.layers[l].weight_bytes > 0) ||
               std::any_of(p.layers[l].inputs.begin(), p.layers[l].inputs.end(),
                           [&](int i) { return i >= 0 && wants[static_cast<std::size_t>(i)]; });
  return wants;
}

void check(const profile& p, const std::vector<bool>& frozen) {
  if (frozen.size() != p.layers.size())
    refuse("frozen: " + std::to_string(frozen.size()) + " flags for " + std::to_string(p.layers.size()) + " layers");
  if (std::any_of(p.layers.begin(), p.layers.end(), [](const auto& l) { return l.frozen; }))
    refuse("the profile of '" + p.model + "' is that of a model frozen at another depth already");
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    for (const auto i : p.layers[l].inputs)
      if (frozen[l] && i >= 0 && !frozen[static_cast<std::size_t>(i)])
        refuse("'" + p.layers[l].name + "' cannot be frozen: it reads '" + p.layers[static_cast<std::size_t>(i)].name +
               "', which is not");
  const auto is_frozen = [&](int l) { return frozen[static_cast<std::size_t>(l)]; };
  for (const auto& layers : p.tied)
    if (const auto active = std::find_if_not(layers.begin(), layers.end(), is_frozen);
        active != layers.end() && std::any_of(layers.begin(), layers.end(), is_frozen))
      refuse("'" + p.layers[static_cast<std::size_t>(layers.front())].name + "' cannot be frozen: '" +
             p.layers[static_cast<std::size_t>(*active)].name +
             "' trains a tensor of it; wanted at most all before it");
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    if (!frozen[l] && p.layers[l].weight_bytes > 0) return;
  refuse("nothing would be left to train: no layer of '" + p.model + "' that is not frozen has weights");
}

void freeze(const profile& p, measurement& m, const std::vector<bool>& frozen, const std::vector<bool>& is_read) {
  const auto before = m.layers;
  const auto wants = trained(p, frozen);
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    auto& cost = m.layers[l];
    if (frozen[l]) {
      const double kept = is_read[l] ? cost.kept_output_bytes : 0;
      double workspace = cost.workspace_bytes + cost.kept_output_bytes - kept;
      for (const auto i : p.layers[l].inputs)
        if (i >= 0 && !is_read[static_cast<std::size_t>(i)])
          workspace += before[static_cast<std::size_t>(i)].kept_output_bytes;
      cost = {.forward_seconds = cost.forward_seconds,
              .output_bytes = cost.output_bytes,
              .kept_output_bytes = kept,
              .kept_bytes = kept,
              .workspace_bytes = workspace};
      if (!m.update_seconds.empty()) m.update_seconds[l] = 0;
      continue;
    }
    const bool is_asked = std::any_of(p.layers[l].inputs.begin(), p.layers[l].inputs.end(),
                                      [&](int i) { return i >= 0 && wants[static_cast<std::size_t>(i)]; });
    if (is_asked) continue;
    const auto part = cost.weight_seconds > 0 ? cost.weight_seconds : usual_weight_seconds(p.layers[l], cost);
    cost.backward_seconds = cost.weight_seconds = std::min(part, cost.backward_seconds);
  }
}

} // namespace

profile frozen_costs(const profile& p, const std::vector<bool>& frozen) {
  if (is_frozen_so(p, frozen)) return p;
  check(p, frozen);
  const auto count = p.layers.size();
  std::vector<bool> is_read(count); // by an active layer
  for (std::size_t l = 0; l < count; ++l)
    for (const auto i : p.layers[l].inputs)
      if (!frozen[l] && i >= 0) is_read[static_cast<std::size_t>(i)] = true;
  auto made = p;
  for (auto& m : made.measurements)
    freeze(p, m, frozen, is_read);
  for (std::size_t l = 0; l < count; ++l) {
    auto& layer = made.layers[l];
    layer.frozen = frozen[l];
    if (!layer.frozen) continue;
    layer.frozen_bytes = layer.weight_bytes;
    layer.weight_bytes = 0;
  }
  std::erase_if(made.tied, [&](const auto& layers) { return frozen[static_cast<std::size_t>(layers.front())]; });
  return made;
}

profile frozen_costs(const profile& p, int count) {
  std::vector<bool> frozen(p.layers.size());
  std::fill(frozen.begin(), frozen.begin() + count, true);
  return frozen_costs(p, frozen);
}

std::vector<bool> frozen_layers(const profile& p) {
  std::vector<bool> frozen;
  for (const auto& layer : p.layers)
    frozen.push_back(layer.frozen);
  return frozen;
}

int frozen_prefix(const profile& p) {
  const auto active = std::find_if_not(p.layers.begin(), p.layers.end(), [](const auto& l) { return l.frozen; });
  return static_cast<int>(active - p.layers.begin());
}

bool is_frozen_so(const profile& p, const std::vector<bool>& frozen) {
  return std::equal(p.layers.begin(), p.layers.end(), frozen.begin(), frozen.end(),
                    [](const auto& layer, bool is) { return layer.frozen == is; });
}

int layers_before(const profile& p, const std::string& layer) {
  const auto names = names_of(p);
  const auto found = std::find(names.begin(), names.end(), layer);
  if (found == names.end())
    refuse("frozen-until is '" + layer + "', which is no layer of '" + p.model + "'" + suggestion(layer, names));
  if (found == names.begin())
    refuse("frozen-until is '" + layer + "', the first layer of '" + p.model + "': nothing would be before it");
  return static_cast<int>(found - names.begin());
}

} // namespace penstock::planner
