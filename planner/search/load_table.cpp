// What lies between two states of a graph: sums over the layers done, differences in constant time.
#include "planner/search/layer_graph.hpp"

#include <algorithm>
#include <numeric>

namespace penstock::planner {

namespace {

/// Costs of the layers and of what lies between them, for the sums over states.
struct layer_sums {
  const profile& p;
  const layer_graph& graph;
  std::vector<layer_cost> costs;
  std::vector<double> updates;
  std::vector<double> tensor_bytes;      // every layer's output; last, the model's input
  std::vector<std::vector<int>> readers; // of each of those

  layer_sums(const profile& of, const layer_graph& shape, double samples, int threads, double speed)
      : p(of), graph(shape), costs(costs_at(of, samples, threads)), updates(update_seconds_at(of, threads)),
        readers(costs.size() + 1) {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      for (auto* seconds : {&costs[i].forward_seconds, &costs[i].backward_seconds, &costs[i].accumulate_seconds})
        *seconds /= speed;
      updates[i] /= speed;
      tensor_bytes.push_back(costs[i].output_bytes);
      for (const auto input : p.layers[i].inputs)
        readers[input < 0 ? costs.size() : static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
    }
    tensor_bytes.push_back(static_cast<double>(p.input_bytes_per_sample) * samples);
  }

  void add(std::size_t layer, stage_load& sum) const {
    sum.forward_seconds += costs[layer].forward_seconds;
    sum.backward_seconds += costs[layer].backward_seconds;
    sum.accumulate_seconds += costs[layer].accumulate_seconds;
    sum.update_seconds += updates[layer];
    sum.weight_bytes += p.layers[layer].weight_bytes;
    sum.kept_bytes += costs[layer].kept_bytes;
    sum.frozen_bytes += p.layers[layer].frozen_bytes;
    sum.active_layers += p.layers[layer].frozen ? 0 : 1;
    sum.carried_bytes += p.layers[layer].carried_bytes;
  }

  /// Each state from the one before it: chains may have a hundred thousand layers.
  void fill_chain(std::vector<stage_load>& until, std::vector<double>& crossing) const {
    std::vector<std::size_t> state_of(costs.size()); // the first at which the layer is done
    for (std::size_t s = 1, layer = 0; s < until.size(); ++s) {
      until[s] = until[s - 1];
      for (; static_cast<int>(layer) < graph.done_count(static_cast<int>(s)); ++layer) {
        state_of[layer] = s;
        add(layer, until[s]);
      }
    }
    for (std::size_t tensor = 0; tensor < readers.size(); ++tensor) {
      if (readers[tensor].empty()) continue;
      const auto last = state_of[static_cast<std::size_t>(readers[tensor].back())];
      for (auto s = tensor < costs.size() ? state_of[tensor] : 0; s < last; ++s)
        crossing[s] += tensor_bytes[tensor];
    }
  }

  void fill_sets(std::vector<stage_load>& until, std::vector<double>& crossing) const {
    for (int s = 0; s < graph.states(); ++s)
      for (std::size_t tensor = 0; tensor < readers.size(); ++tensor) {
        if (tensor < costs.size()) {
          if (!graph.is_done(s, static_cast<int>(tensor))) continue;
          add(tensor, until[static_cast<std::size_t>(s)]);
        }
        if (std::any_of(readers[tensor].begin(), readers[tensor].end(), [&](int r) { return !graph.is_done(s, r); }))
          crossing[static_cast<std::size_t>(s)] += tensor_bytes[tensor];
      }
  }
};

} // namespace

load_table::load_table(const profile& p, const layer_graph& graph, double samples, int threads, double speed)
    : graph_(&graph), until_(static_cast<std::size_t>(graph.states())), crossing_(until_.size()) {
  const layer_sums sums(p, graph, samples, threads, speed);
  if (graph.is_chain())
    sums.fill_chain(until_, crossing_);
  else
    sums.fill_sets(until_, crossing_);
  for (int s = 0; s < graph.states(); ++s)
    goes_one_way_.push_back(graph.done_count(s) > 0 && until_[static_cast<std::size_t>(s)].active_layers == 0);
  for (const auto& cost : sums.costs) {
    seconds_.push_back(cost.forward_seconds + cost.backward_seconds);
    workspace_.push_back(std::max(cost.workspace_bytes, cost.backward_workspace_bytes));
  }
  by_falling_workspace_.resize(workspace_.size());
  std::iota(by_falling_workspace_.begin(), by_falling_workspace_.end(), 0);
  std::stable_sort(by_falling_workspace_.begin(), by_falling_workspace_.end(), [&](int a, int b) {
    return workspace_[static_cast<std::size_t>(a)] > workspace_[static_cast<std::size_t>(b)];
  });
}

stage_load load_table::between(int from, int to) const {
  const auto& a = until_[static_cast<std::size_t>(from)];
  const auto& b = until_[static_cast<std::size_t>(to)];
  // Sums over different orders may differ in their last bits: nothing is below 0.
  const auto less = [](double x, double y) { return x > y ? x - y : 0.0; };
  stage_load load{.forward_seconds = less(b.forward_seconds, a.forward_seconds),
                  .backward_seconds = less(b.backward_seconds, a.backward_seconds),
                  .accumulate_seconds = less(b.accumulate_seconds, a.accumulate_seconds),
                  .update_seconds = less(b.update_seconds, a.update_seconds),
                  .weight_bytes = less(b.weight_bytes, a.weight_bytes),
                  .kept_bytes = less(b.kept_bytes, a.kept_bytes),
                  .carried_bytes = less(b.carried_bytes, a.carried_bytes),
                  .input_bytes = from > 0 ? crossing_[static_cast<std::size_t>(from)] : 0,
                  .output_bytes = crossing_[static_cast<std::size_t>(to)],
                  .frozen_bytes = less(b.frozen_bytes, a.frozen_bytes),
                  .active_layers = b.active_layers - a.active_layers};
  for (const auto layer : by_falling_workspace_) {
    if (workspace_[static_cast<std::size_t>(layer)] <= 0) break;
    if (graph_->is_done(to, layer) && !graph_->is_done(from, layer)) {
      load.workspace_bytes = workspace_[static_cast<std::size_t>(layer)];
      break;
    }
  }
  return load;
}

} // namespace penstock::planner
