// Balanced contiguous partition by estimated work.
#include "actors/policy/partition.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <limits>

namespace penstock::actors {

namespace {

// Work of one sample in units of one flop. Reading or writing an element costs about as much as ten flops where
// arithmetic is vectorised; a weight is read three times a step (forward, backward, update), shared by a minibatch.
double layer_work(const model& m, int layer) {
  constexpr double element_cost = 10;
  constexpr double weight_cost = 1;
  const auto& l = m.layers()[static_cast<std::size_t>(layer)];
  const auto inputs = m.input_specs(layer);
  double work = 3 * l.op->forward_flops(inputs);
  for (const auto id : l.outputs) work += element_cost * static_cast<double>(element_count(m.value(id).spec.dims));
  for (const auto& p : m.parameters(layer)) work += weight_cost * static_cast<double>(element_count(p.dims));
  return work;
}

} // namespace

std::vector<int> balanced_cuts(const model& m, const std::vector<int>& replicas) {
  const int layers = static_cast<int>(m.layers().size());
  const int stages = static_cast<int>(replicas.size());
  if (stages > layers)
    throw usage_error(m.name() + " has " + std::to_string(layers) + " layers; " + std::to_string(stages) +
                      " stages were asked for, and each needs at least one");
  std::vector<double> total(static_cast<std::size_t>(layers) + 1, 0);
  for (int l = 0; l < layers; ++l) total[static_cast<std::size_t>(l) + 1] = total[static_cast<std::size_t>(l)] + layer_work(m, l);
  // best[s][l]: least possible largest stage when stages 0..s hold the layers before l.
  const auto width = static_cast<std::size_t>(layers) + 1;
  std::vector<std::vector<double>> best(replicas.size(), std::vector<double>(width, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<int>> start(replicas.size(), std::vector<int>(width, 0));
  for (int s = 0; s < stages; ++s) {
    const auto su = static_cast<std::size_t>(s);
    for (int l = s + 1; l <= layers - (stages - 1 - s); ++l) {
      const auto lu = static_cast<std::size_t>(l);
      for (int from = s == 0 ? 0 : s; from <= (s == 0 ? 0 : l - 1); ++from) {
        const auto fu = static_cast<std::size_t>(from);
        const double own = (total[lu] - total[fu]) / replicas[su];
        const double largest = s == 0 ? own : std::max(own, best[su - 1][fu]);
        if (largest < best[su][lu]) {
          best[su][lu] = largest;
          start[su][lu] = from;
        }
      }
    }
  }
  std::vector<int> cuts(replicas.size(), 0);
  int end = layers;
  for (int s = stages - 1; s >= 0; --s) {
    cuts[static_cast<std::size_t>(s)] = start[static_cast<std::size_t>(s)][static_cast<std::size_t>(end)];
    end = cuts[static_cast<std::size_t>(s)];
  }
  return cuts;
}

std::string layer_range(const model& m, int first, int last) {
  const auto& layers = m.layers();
  const auto& from = layers.at(static_cast<std::size_t>(first)).name;
  const auto& to = layers.at(static_cast<std::size_t>(last - 1)).name;
  return from == to ? from : from + " .. " + to;
}

} // namespace penstock::actors
