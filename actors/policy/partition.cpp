// Balanced contiguous partition by estimated work.
#include "actors/policy/partition.hpp"

#include "kernels/check.hpp"
#include "planner/explore/hints.hpp"

#include <algorithm>
#include <limits>

namespace penstock::actors {

namespace {

// Work of one sample in units of one flop. Reading or writing an element costs about as much as ten flops where
// arithmetic is vectorised; a weight is read three times a step (forward, backward, update), shared by a minibatch.
// Where nothing but the forward is done, a third of it all.
double layer_work(const model& m, int layer, bool is_frozen) {
  constexpr double element_cost = 10;
  constexpr double weight_cost = 1;
  const auto& l = m.layers()[static_cast<std::size_t>(layer)];
  const auto inputs = m.input_specs(layer);
  double work = 3 * l.op->forward_flops(inputs);
  for (const auto id : l.outputs)
    work += element_cost * static_cast<double>(element_count(m.value(id).spec.dims));
  for (const auto& p : m.parameters(layer))
    work += weight_cost * static_cast<double>(element_count(p.dims));
  return is_frozen ? work / 3 : work;
}

// Stages of contiguous layers by dynamic programming: `own(stage, first, last)` is a stage's cost or infinity, `join`
// puts it together with the least cost of the stages before.
template <class Own, class Join>
struct cut_search {
  int layers;
  int stages;
  Own own;
  Join join;
  std::vector<std::vector<double>> best;  // [s][l]: least cost when stages 0..s hold the layers before l
  std::vector<std::vector<int>> first_of; // the last stage's first layer there

  cut_search(int l, int s, Own o, Join j) : layers(l), stages(s), own(o), join(j) {
    const auto rows = static_cast<std::size_t>(stages);
    const auto columns = static_cast<std::size_t>(layers) + 1;
    best.assign(rows, std::vector<double>(columns, std::numeric_limits<double>::infinity()));
    first_of.assign(rows, std::vector<int>(columns, 0));
    for (int stage = 0; stage < stages; ++stage)
      for (int end = stage + 1; end <= layers - (stages - 1 - stage); ++end)
        fill(stage, end);
  }

  void fill(int stage, int end) {
    const auto s = static_cast<std::size_t>(stage);
    const auto e = static_cast<std::size_t>(end);
    for (int from = stage; from <= (stage == 0 ? 0 : end - 1); ++from) {
      const double before = stage == 0 ? 0 : best[s - 1][static_cast<std::size_t>(from)];
      const double cost = join(before, own(stage, from, end));
      if (cost < best[s][e]) {
        best[s][e] = cost;
        first_of[s][e] = from;
      }
    }
  }

  double least() const { return best.empty() ? 0 : best.back().back(); }
  std::vector<int> cuts() const {
    std::vector<int> firsts(best.size(), 0);
    int end = layers;
    for (std::size_t s = best.size(); s-- > 0;)
      end = firsts[s] = first_of[s][static_cast<std::size_t>(end)];
    return firsts;
  }
};

// For each layer the one that can compute it within itself; -1: none.
std::vector<int> fusing_producers(const model& m) {
  std::vector<int> producers;
  for (const auto& layer : m.layers()) {
    const int producer = layer.inputs.size() == 1 ? m.value(layer.inputs.front()).producer : -1;
    const bool fuses = producer >= 0 && m.layers()[static_cast<std::size_t>(producer)].op->try_fuse(*layer.op);
    producers.push_back(fuses ? producer : -1);
  }
  return producers;
}

// Layers that a stage starting with `first` has without the ones that would compute them.
int parted_layers(const std::vector<int>& producers, int first) {
  return static_cast<int>(std::count_if(producers.begin() + first, producers.end(),
                                        [first](int producer) { return producer >= 0 && producer < first; }));
}

// Layers that a stage should not start with: they stay with what is before them (model::kept_together).
std::vector<bool> kept_with_before(const model& m) {
  std::vector<bool> kept(m.layers().size(), false);
  for (const auto& group : kept_groups(m))
    std::fill(kept.begin() + group.front() + 1, kept.begin() + group.back() + 1, true);
  return kept;
}

} // namespace

std::vector<std::vector<int>> kept_groups(const model& m) {
  std::vector<std::vector<int>> groups;
  for (const auto& names : m.kept_together()) {
    std::vector<int> group;
    for (int l = 0; l < static_cast<int>(m.layers().size()); ++l)
      if (std::find(names.begin(), names.end(), m.layers()[static_cast<std::size_t>(l)].name) != names.end())
        group.push_back(l);
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<int> balanced_cuts(const model& m, const std::vector<int>& replicas, int frozen_until) {
  const int layers = static_cast<int>(m.layers().size());
  const int stages = static_cast<int>(replicas.size());
  if (stages > layers)
    throw usage_error(m.name() + " has " + std::to_string(layers) + " layers; " + std::to_string(stages) +
                      " stages were asked for, and each needs at least one");
  std::vector<double> total{0};
  std::vector<int> splits;
  const auto producers = fusing_producers(m);
  for (int l = 0; l < layers; ++l) {
    total.push_back(total.back() + layer_work(m, l, l < frozen_until));
    splits.push_back(parted_layers(producers, l));
  }
  const auto work = [&](int stage, int first, int last) {
    return (total[static_cast<std::size_t>(last)] - total[static_cast<std::size_t>(first)]) /
           replicas[static_cast<std::size_t>(stage)];
  };
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto most = [](double a, double b) { return std::max(a, b); };
  auto largest = cut_search(layers, stages, work, most).least();
  auto kept = kept_with_before(m);
  const auto whole = [&](int stage, int first, int last) {
    return kept[static_cast<std::size_t>(first)] ? infinity : work(stage, first, last);
  };
  if (const auto least = cut_search(layers, stages, whole, most).least(); least <= largest * planner::worth_parting)
    largest = least;
  else
    kept.assign(kept.size(), false); // what should stay together is too large for so many stages
  // Among the cuts that are as good: the fewest layers parted from those that would compute them, then the other stages
  // evenly loaded.
  const auto parted = [&](int stage, int first, int last) {
    const double own = whole(stage, first, last);
    if (own > largest) return infinity;
    return splits[static_cast<std::size_t>(first)] +
           own * own / (largest * largest) / (stages + 1); // squares add to < 1
  };
  return cut_search(layers, stages, parted, [](double a, double b) { return a + b; }).cuts();
}

} // namespace penstock::actors
