// A hand-made partition: which layers each stage gets when the user names only the number of stages.
#pragma once

#include "kernels/model.hpp"

namespace penstock::actors {

/// The layers that the model says to keep together (model::kept_together), ascending. Names that it has not (a part
/// that an option leaves out) count for nothing.
std::vector<std::vector<int>> kept_groups(const model& m);

/// First layer of each stage (starts with 0), so that the largest stage's estimated work is least: forward flops plus
/// a memory term per output element, per replica. Exact (dynamic programming); every stage has at least one layer.
/// Layers that the model says to keep together are parted only where keeping them would cost more than 15% of that
/// (planner::worth_parting).
/// Among equals, as few ReLUs as possible are parted from their producers, and the other stages are evenly loaded.
/// Layers before `frozen_until` cost their forward alone. Throws usage_error for more stages than layers.
std::vector<int> balanced_cuts(const model& m, const std::vector<int>& replicas, int frozen_until = 0);

} // namespace penstock::actors
