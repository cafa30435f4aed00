// Random small models, clusters and requests, and every partition of them.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace penstock::planner::testing {

/// All that a search needs; the parts refer to each other, so it stays where it is made.
struct search_instance {
  profile model;
  std::vector<std::vector<int>> together;
  cluster on;
  search_request request;
};

struct instance_limits {
  int layers = 12;
  int devices = 6;
  bool is_chain = false;
};

/// The same for the same seed: chains and branching graphs, one or two device types, one or two levels of links, all
/// charges, memory limits that bite about half the time.
search_instance random_instance(std::uint64_t seed, const instance_limits& limits = {});

/// Calls `visit` with every partition into stages between states of the graph, replicas and types as the flat search
/// places them; completed under the model. Plain recursion: no bound, no table.
void for_each_partition(const stage_cost& model, const std::function<void(const candidate&)>& visit);

/// What a graph of n layers with this cost everywhere looks like: input, l0, l1, ... in a row.
profile chain_profile(const std::vector<layer_cost>& costs, const std::vector<double>& weight_bytes);

} // namespace penstock::planner::testing
