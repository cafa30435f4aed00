// The published dynamic program, level by level, without bounds or shortcuts.
#include "tests/planner/search/published_planner.hpp"

#include <algorithm>
#include <limits>

namespace penstock::planner::testing {

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

struct entry {
  double seconds = infinity;
  int split = -1; // where its last stage begins; -1: one stage
  int last_machines = 0;
};

class level_table {
public:
  level_table(const layer_graph& graph, const load_table& loads, const published_level& level, int machines_below,
              const std::vector<double>& below)
      : graph_(graph), loads_(loads), level_(level), below_(below), states_(graph.states()), weights_(below.size()),
        entries_(below.size() * at(level.machines + 1)) {
    for (int from = 0; from < states_; ++from)
      for (int to = from + 1; to < states_; ++to)
        if (graph.reaches(from, to)) weights_[range(from, to)] = loads.between(from, to).weight_bytes;
    for (int from = 0; from < states_; ++from)
      for (int to = from + 1; to < states_; ++to)
        if (graph.reaches(from, to)) fill(from, to, machines_below);
  }

  const entry& of(int from, int to, int m) const { return entries_[range(from, to) * at(level_.machines + 1) + at(m)]; }
  /// Of all ranges on all machines.
  std::vector<double> seconds() const {
    std::vector<double> all(at(states_) * at(states_), infinity);
    for (int from = 0; from < states_; ++from)
      for (int to = from + 1; to < states_; ++to)
        all[range(from, to)] = of(from, to, level_.machines).seconds;
    return all;
  }

private:
  std::size_t range(int from, int to) const { return at(from) * at(states_) + at(to); }

  double stage_seconds(int from, int to, int m, int sync_shared_by) const {
    const auto sync = 4.0 * (m - 1) * weights_[range(from, to)] / (level_.bytes_per_second * m);
    return (below_[range(from, to)] + sync / sync_shared_by) / m;
  }

  double transfer_seconds(int state, int m) const {
    return 2 * loads_.crossing_bytes(state) / (level_.bytes_per_second * m);
  }

  void fill(int from, int to, int machines_below) {
    auto* best = &entries_[range(from, to) * at(level_.machines + 1)];
    for (int m = 1; m <= level_.machines; ++m)
      best[m] = {stage_seconds(from, to, m, machines_below), -1, m};
    for (int split = from + 1; split < to; ++split) {
      if (!graph_.reaches(from, split) || !graph_.reaches(split, to)) continue;
      for (int m = 2; m <= level_.machines; ++m)
        for (int last = 1; last < m; ++last) {
          auto seconds = std::max(
              {of(from, split, m - last).seconds, stage_seconds(split, to, last, 1), transfer_seconds(split, last)});
          if (to + 1 < states_) seconds = std::max(seconds, transfer_seconds(to, last));
          if (seconds < best[m].seconds) best[m] = {seconds, split, last};
        }
    }
  }

  const layer_graph& graph_;
  const load_table& loads_;
  published_level level_;
  const std::vector<double>& below_;
  int states_;
  std::vector<double> weights_; // of all ranges
  std::vector<entry> entries_;  // of all ranges and numbers of machines
};

} // namespace

published_plan best_published_plan(const layer_graph& graph, const load_table& loads,
                                   const std::vector<published_level>& levels) {
  const auto states = graph.states();
  std::vector<double> below(at(states) * at(states), infinity);
  for (int from = 0; from < states; ++from)
    for (int to = from + 1; to < states; ++to)
      if (graph.reaches(from, to)) {
        const auto load = loads.between(from, to);
        below[at(from) * at(states) + at(to)] = load.forward_seconds + load.backward_seconds;
      }
  published_plan plan;
  int machines_below = 1;
  for (const auto& level : levels) {
    const level_table table(graph, loads, level, machines_below, below);
    plan = {table.of(0, states - 1, level.machines).seconds, {}};
    for (int to = states - 1, m = level.machines; to > 0;) {
      const auto& e = table.of(0, to, m);
      plan.stages.insert(plan.stages.begin(), {std::max(e.split, 0), to, e.last_machines});
      to = std::max(e.split, 0);
      m -= e.last_machines;
    }
    below = table.seconds();
    machines_below = level.machines;
  }
  return plan;
}

} // namespace penstock::planner::testing
