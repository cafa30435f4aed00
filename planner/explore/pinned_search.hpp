// The search where a person has fixed the cuts, the replicas, or both.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <vector>

namespace penstock::planner {

/// What is fixed of each stage; an empty list leaves that free. Where both are given their sizes agree: n stages have n
/// replica counts and n - 1 cuts.
struct fixed_shape {
  std::vector<int> cuts; ///< states at which stages 1, 2, ... begin
  std::vector<int> replicas;
};

/// The best partitions of that shape under the model, best first, at most request().top, each complete, origin "given";
/// any number of devices is used where the replicas are free. Exact as search_flat: stages take devices in order, stage
/// 0 the first of its type, replicas of one type each. Not exact where devices stay unused on several levels of links
/// (stages are costed at the end of the cluster and moved to its front), nor for free replicas on more than 128 devices
/// (all are used, in steps of an eighth). Dynamic programming over suffixes of stages (state x devices used of each
/// type), keeping what is best in any of the terms of the cost. Empty where nothing fits.
std::vector<candidate> search_pinned(const stage_cost& model, const fixed_shape& shape);

} // namespace penstock::planner
