// Where a model may be cut, and what lies between two cuts.
#pragma once

#include "planner/profile/profile.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::planner {

/// Sums over the layers of a stage, for one micro-batch on one replica. Bytes as in layer_cost.
struct stage_load {
  double forward_seconds = 0;
  double backward_seconds = 0;
  double accumulate_seconds = 0;
  double update_seconds = 0; ///< per update, not per micro-batch
  double weight_bytes = 0;
  double kept_bytes = 0;
  double workspace_bytes = 0; ///< the largest of its layers
  double input_bytes = 0;     ///< of every tensor that crosses into it (skip connections that pass through included)
  double output_bytes = 0;
};

struct graph_limits {
  int states = 4096; ///< more antichain states than this: one topological order instead
};

/// The shape of the model's graph as the planner sees it: states are frontiers (antichains, PipeDream SOSP'19 section
/// 3.1), from "nothing done" (state 0) to "all done" (the last), in topological order; a stage lies between a state and
/// one of its ancestors. Layers that must stay together (fused, --keep-together) are never separated. Beyond the limit
/// the states are the prefixes of the profile's order, and what crosses a cut is charged all the same.
class layer_graph {
public:
  /// `together`: lists of layer indices that no cut may separate. Throws std::invalid_argument for an index out of
  /// range.
  layer_graph(const profile& p, const std::vector<std::vector<int>>& together = {}, graph_limits limits = {});

  int states() const { return states_; }
  bool uses_antichains() const { return uses_antichains_; }
  /// True when a stage may lie between them: from < to and every layer done at `from` is done at `to`.
  bool reaches(int from, int to) const;
  /// Layers done at `to` but not at `from`, in the profile's order.
  std::vector<int> layers_between(int from, int to) const;
  /// The order of all layers in which the stages between these states are contiguous (first 0, last states() - 1): the
  /// profile's own order within each stage.
  std::vector<int> order_of(const std::vector<int>& path) const;
  /// The profile's order itself, when every state of `path` is a prefix of it.
  bool keeps_profile_order(const std::vector<int>& path) const;
  /// Names the states at which those layers begin a stage, given as a partition into ranges of the profile's (or the
  /// plan's) order: the state after the first `count` layers of `order`, or -1 when that is no state.
  int state_after(const std::vector<int>& order, std::size_t count) const;

private:
  int states_ = 0;
  bool uses_antichains_ = false;
  std::size_t layers_ = 0;
  std::vector<std::vector<std::uint64_t>> done_;      // per state, bit per layer
  std::vector<std::vector<std::uint64_t>> ancestors_; // per state, bit per state
};

/// Sums of one set of costs over the states of a graph: the load between any two in constant time (workspace aside).
class load_table {
public:
  /// `samples` of a micro-batch, `threads` of the worker: costs_at(p, ...).
  load_table(const profile& p, const layer_graph& graph, double samples, int threads);
  stage_load between(int from, int to) const;
  /// Bytes of every tensor that crosses the cut at a state; the model's input included where a later layer reads it.
  double crossing_bytes(int state) const;

private:
  const layer_graph& graph_;
  std::vector<layer_cost> costs_;
  std::vector<double> updates_;
  std::vector<stage_load> until_; // per state, sums over the layers done
  std::vector<double> crossing_;
};

} // namespace penstock::planner
