// One chain through a graph's states, for searches that need an order of all cuts.
#pragma once

#include "planner/search/layer_graph.hpp"

#include <vector>

namespace penstock::planner {

/// States from first to last, each reached from the one before: the most there can be, among these with the fewest
/// bytes crossing in total. Of more than `most` (at least 2) those are kept where least crosses, one for each of equal
/// shares of compute.
std::vector<int> longest_chain(const layer_graph& graph, const load_table& loads, int most);

} // namespace penstock::planner
