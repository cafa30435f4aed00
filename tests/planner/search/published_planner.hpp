// PipeDream's published planner, re-made from its description: what it costs a plan, and the best it finds.
#pragma once

#include "planner/search/layer_graph.hpp"

#include <vector>

namespace penstock::planner::testing {

/// One level of its machines, innermost first.
struct published_level {
  int machines = 1;
  double bytes_per_second = 0;
};

struct published_stage {
  int from = 0;
  int to = 0;
  int machines = 1;
  bool operator==(const published_stage&) const = default;
};

struct published_plan {
  double seconds = 0;                  ///< of the bottleneck
  std::vector<published_stage> stages; ///< of the top level
};

/// Its dynamic program with `--activation_compression_ratio 1`, over the graph's states. A stage from i to j on m
/// machines of a level costs a sum, (T + 4 (m - 1) W / (m B)) / m, where T is the best of the level below on all its
/// machines; a pipeline costs its slowest stage, and for every stage but the first of it 2 a / (B m) of what comes in
/// and, unless it ends the model, of what goes out. A range that is one stage alone has its sync term divided by the
/// machines of the level below. (The published code, not the paper: its all-reduce does not hide, and output is charged
/// to a pipeline's last stage.)
published_plan best_published_plan(const layer_graph& graph, const load_table& loads,
                                   const std::vector<published_level>& levels);

} // namespace penstock::planner::testing
