// Where a model may be cut, and what lies between two cuts.
#pragma once

#include "planner/profile/profile.hpp"

#include <cstdint>
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
  double carried_bytes = 0;   ///< of one column of the minibatch, handed to the next one
  double state_bytes = 0;     ///< what a replica holds of that; load_table does not know it
  /// Of every tensor that crosses into it from another stage, skip connections that pass through included; the model's
  /// input comes from the source, whose it stays.
  double input_bytes = 0;
  double output_bytes = 0;
  double frozen_bytes = 0; ///< of weights that nothing changes
  int active_layers = 0;   ///< 0: wholly frozen
};

struct graph_limits {
  int states = 4096; ///< more states than this: the prefixes of the profile's order instead
  /// Up to so many states, every set of layers that can be done first is a state. Beyond, a second input's layers are
  /// done when a layer that reads them is, which is how PipeDream's published planner counts (GNMT-16: 1,495 states
  /// instead of 16,885); 0: always so. Graphs with one source have the same states either way.
  int free_starts = 512;
};

/// The shape of the model's graph as the planner sees it. A state is a set of layers that can be done before all others
/// (its frontier is an antichain: PipeDream, SOSP'19 section 3.1), from "nothing done" (state 0, which the published
/// planner does not count) to "all done" (the last), in topological order; a stage lies between a state and one of its
/// ancestors. Layers that must stay together (fused, --keep-together) are never separated. Beyond the limit the states
/// are the prefixes of the profile's order, and what crosses a cut is charged all the same. Made in time polynomial in
/// layers and states.
class layer_graph {
public:
  /// `together`: lists of layer indices that no cut may separate. Throws std::invalid_argument for an index out of
  /// range, and for limits below 2 states.
  layer_graph(const profile& p, const std::vector<std::vector<int>>& together = {}, graph_limits limits = {});

  int states() const { return states_; }
  int layers() const { return layers_; }
  /// False where the limit was passed.
  bool uses_antichains() const { return uses_antichains_; }
  bool is_done(int state, int layer) const {
    return done_.empty() ? layer < done_counts_[static_cast<std::size_t>(state)]
                         : (word_of(state, layer) >> (layer % 64) & 1) != 0;
  }
  /// Layers done at a state.
  int done_count(int state) const { return done_counts_[static_cast<std::size_t>(state)]; }
  /// True when every state is a prefix of the profile's order: chains, and graphs beyond the limit.
  bool is_chain() const { return done_.empty(); }
  /// True when a stage may lie between them: from < to and every layer done at `from` is done at `to`.
  bool reaches(int from, int to) const {
    return from < to && (done_.empty() || (ancestors_[ancestor_word(to, from)] >> (from % 64) & 1) != 0);
  }
  /// Layers done at `to` but not at `from`, in the profile's order.
  std::vector<int> layers_between(int from, int to) const;
  /// The order of all layers in which the stages between these states are contiguous (first 0, last states() - 1): the
  /// profile's own order within each stage.
  std::vector<int> order_of(const std::vector<int>& path) const;
  /// The profile's order itself, when every state of `path` is a prefix of it.
  bool keeps_profile_order(const std::vector<int>& path) const;
  /// The state after the first `count` layers of `order`, or -1 when that is no state.
  int state_after(const std::vector<int>& order, std::size_t count) const;

private:
  std::uint64_t word_of(int state, int layer) const {
    return done_[static_cast<std::size_t>(state) * words_ + static_cast<std::size_t>(layer / 64)];
  }
  std::size_t ancestor_word(int to, int from) const {
    return static_cast<std::size_t>(to) * ancestor_words_ + static_cast<std::size_t>(from / 64);
  }
  void find_ancestors();

  int states_ = 0;
  int layers_ = 0;
  bool uses_antichains_ = true;
  std::vector<int> done_counts_;
  std::vector<std::uint64_t> done_; // a bit per layer and state; empty where the counts say all
  std::size_t words_ = 0;           // per state
  std::vector<std::uint64_t> ancestors_;
  std::size_t ancestor_words_ = 0;
};

/// Sums of one set of costs over the states of a graph: the load between any two in constant time, but for the
/// workspace, which takes a few steps. The graph must outlive it.
class load_table {
public:
  /// `samples` of a micro-batch, `threads` of the worker: costs_at(p, ...), times divided by `speed`.
  load_table(const profile& p, const layer_graph& graph, double samples, int threads, double speed = 1);
  stage_load between(int from, int to) const;
  /// Bytes of every tensor that crosses the cut at a state, each once: outputs of layers done that a layer not done
  /// reads, and the model's input where a layer not done reads it. Half of that where nothing active is done: it goes
  /// one way only, no gradient comes back.
  double crossing_bytes(int state) const {
    const auto s = static_cast<std::size_t>(state);
    return goes_one_way_[s] ? crossing_[s] / 2 : crossing_[s];
  }
  /// Forward and backward of one layer.
  double layer_seconds(int layer) const { return seconds_[static_cast<std::size_t>(layer)]; }

private:
  const layer_graph* graph_;
  std::vector<stage_load> until_; // per state, sums over the layers done
  std::vector<double> crossing_;
  std::vector<bool> goes_one_way_;
  std::vector<double> seconds_;           // per layer
  std::vector<double> workspace_;         // per layer
  std::vector<int> by_falling_workspace_; // layers
};

} // namespace penstock::planner
