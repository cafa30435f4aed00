// The layers of each stage of a given plan, added up.
#pragma once

#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"
#include "planner/search/layer_graph.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

/// Which layers make up each stage: indices into profile::layers, in the plan's order. Throws std::invalid_argument,
/// one line: stages that are no partition of the layers (cuts_of), an order in which a layer comes before one of its
/// inputs, a cut between layers that are computed as one.
std::vector<std::vector<int>> layers_of_stages(const plan& p, const profile& of);

/// A stage's load (its workspace is the forward's), with what memory needs to be exact.
struct stage_costs : stage_load {
  double weight_seconds = 0;      ///< of backward_seconds, what may come later
  double delayed_bytes = 0;       ///< until when it holds so much, in place of the kept bytes
  double unkept_output_bytes = 0; ///< of its own layers' outputs that leave it, what no backward reads
  /// Alive at a backward's worst moment beyond all kept bytes and all weight gradients of the stage; below 0 where some
  /// of those are gone, or not yet made, by then.
  double backward_workspace_bytes = 0;
  double accumulating_workspace_bytes = 0; ///< the same for a backward that adds to gradients that are all there
};

/// One per stage for a micro-batch of `samples`, as load_table::between has it, but at these cuts alone and in time
/// linear in the layers. Times are divided by `speed`.
std::vector<stage_costs> costs_of_stages(const std::vector<std::vector<int>>& stages, const profile& of, double samples,
                                         int threads, double speed);

} // namespace penstock::planner
