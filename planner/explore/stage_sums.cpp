// Sums over the layers of given stages, and the tensors that cross between them.
#include "planner/explore/stage_sums.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

/// The profile's layers in the plan's order, which cuts_of has found to be one of them all.
std::vector<int> ordered_layers(const plan& p, const std::vector<std::string>& names) {
  std::map<std::string, int> index;
  for (const auto& name : names)
    index.emplace(name, static_cast<int>(index.size()));
  std::vector<int> order;
  for (const auto& name : p.layer_order.empty() ? names : p.layer_order)
    order.push_back(index.at(name));
  return order;
}

void check_order(const std::vector<int>& order, const profile& of) {
  std::vector<bool> done(order.size(), false);
  for (const auto i : order) {
    const auto& layer = of.layers[static_cast<std::size_t>(i)];
    for (const auto input : layer.inputs)
      if (input >= 0 && !done[static_cast<std::size_t>(input)])
        refuse("layer_order has '" + layer.name + "' before its input '" +
               of.layers[static_cast<std::size_t>(input)].name + "', wanted it after");
    done[static_cast<std::size_t>(i)] = true;
  }
}

/// By tensor (every layer's output; last, the model's input): the first stage that has it and the last that reads it.
struct tensor_lives {
  std::vector<int> from;
  std::vector<int> to;
};

tensor_lives lives_of(const std::vector<std::vector<int>>& stages, const profile& of) {
  const auto layers = of.layers.size();
  tensor_lives lives{std::vector<int>(layers + 1, -1), std::vector<int>(layers + 1, -1)};
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto i : stages[s]) {
      const auto layer = static_cast<std::size_t>(i);
      lives.from[layer] = static_cast<int>(s);
      for (const auto input : of.layers[layer].inputs) {
        auto& last = lives.to[input < 0 ? layers : static_cast<std::size_t>(input)];
        last = std::max(last, static_cast<int>(s));
      }
    }
  return lives;
}

/// The worst moments of a forward and of a backward, beyond what the whole stage keeps and all its gradients: a forward
/// has not yet kept everything, a backward has let go of what lies behind it and has not made what lies before it.
void add_workspace(stage_costs& load, const std::vector<int>& layers, const profile& of,
                   const std::vector<layer_cost>& costs) {
  double kept = 0;
  double gradients = load.weight_bytes; // of the weights from here to the stage's end
  double forward = 0, fresh = 0, accumulating = 0;
  for (const auto i : layers) {
    const auto& cost = costs[static_cast<std::size_t>(i)];
    const auto weights = of.layers[static_cast<std::size_t>(i)].weight_bytes;
    kept += cost.kept_bytes;
    forward = std::max(forward, kept + cost.workspace_bytes);
    fresh = std::max(fresh, kept + gradients + cost.backward_workspace_bytes);
    accumulating = std::max(accumulating, kept + weights + cost.backward_workspace_bytes);
    gradients -= weights;
  }
  load.workspace_bytes = std::max(0.0, forward - load.kept_bytes);
  load.backward_workspace_bytes = fresh - load.kept_bytes - load.weight_bytes;
  load.accumulating_workspace_bytes = accumulating - load.kept_bytes;
}

} // namespace

std::vector<std::vector<int>> layers_of_stages(const plan& p, const profile& of) {
  const auto names = names_of(of);
  const auto cuts = cuts_of(p, names);
  const auto order = ordered_layers(p, names);
  check_order(order, of);
  std::vector<std::vector<int>> stages(cuts.size() + 1);
  std::size_t stage = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& layer = of.layers[static_cast<std::size_t>(order[i])];
    if (stage < cuts.size() && static_cast<int>(i) == cuts[stage]) {
      ++stage;
      if (layer.fused_with_previous)
        refuse("stage " + std::to_string(stage) + " begins at '" + layer.name +
               "', which is computed as one with the layer before it, wanted a cut elsewhere");
    }
    stages[stage].push_back(order[i]);
  }
  return stages;
}

std::vector<stage_costs> costs_of_stages(const std::vector<std::vector<int>>& stages, const profile& of, double samples,
                                         int threads, double speed) {
  const auto costs = costs_at(of, samples, threads);
  const auto updates = update_seconds_at(of, threads);
  std::vector<stage_costs> loads(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const auto i : stages[s]) {
      const auto layer = static_cast<std::size_t>(i);
      loads[s].forward_seconds += costs[layer].forward_seconds / speed;
      loads[s].backward_seconds += costs[layer].backward_seconds / speed;
      loads[s].weight_seconds += costs[layer].weight_seconds / speed;
      loads[s].delayed_bytes += costs[layer].delayed_bytes;
      loads[s].accumulate_seconds += costs[layer].accumulate_seconds / speed;
      loads[s].update_seconds += updates[layer] / speed;
      loads[s].weight_bytes += of.layers[layer].weight_bytes;
      loads[s].kept_bytes += costs[layer].kept_bytes;
      loads[s].frozen_bytes += of.layers[layer].frozen_bytes;
    }
    add_workspace(loads[s], stages[s], of, costs);
  }
  const auto lives = lives_of(stages, of);
  for (std::size_t t = 0; t < lives.from.size(); ++t) {
    const bool is_input = t + 1 == lives.from.size();
    const auto bytes = is_input ? static_cast<double>(of.input_bytes_per_sample) * samples : costs[t].output_bytes;
    // Kept or not is said of the stage that made it; who only passes it on holds another's.
    if (!is_input && lives.to[t] > lives.from[t])
      loads[static_cast<std::size_t>(lives.from[t])].unkept_output_bytes += bytes - costs[t].kept_output_bytes;
    // Across the cut before stage s.
    for (int s = std::max(1, lives.from[t] + 1); s <= lives.to[t]; ++s) {
      loads[static_cast<std::size_t>(s)].input_bytes += bytes;
      loads[static_cast<std::size_t>(s) - 1].output_bytes += bytes;
    }
  }
  return loads;
}

} // namespace penstock::planner
