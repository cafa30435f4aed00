// What a person has fixed before the search begins: names turned into numbers, and contradictions refused.
#pragma once

#include "planner/explore/explore.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::planner {

struct pins {
  std::int64_t batch = 1;
  int devices = 1;                        ///< at most
  int stages = 0;                         ///< 0: free; follows from the lists below where they are given
  int chunks = 0;                         ///< of interleaved; 0: free
  std::vector<int> replicas;              ///< one per stage; empty: free
  std::vector<int> first_layers;          ///< indices of the first layers of stages 1, 2, ...; empty: free
  std::vector<std::vector<int>> together; ///< indices of layers that share a stage
  std::optional<in_flight_spec> in_flight;
  std::optional<std::vector<std::int64_t>> update_lag; ///< one for all stages, or one for each
  std::vector<std::string> schedules; ///< all that may be tried, in the order of the request or of the table
  bool chosen_schedules = false;      ///< by the request
};

/// The name of BaPipe's schedule for streaming devices that only `estimate_fbp` plays.
constexpr const char* fbp_schedule = "fbp-as";

/// Throws std::invalid_argument, one line, for counts out of range, lists that contradict each other, layers and
/// schedules that do not exist (with the nearest name).
pins resolve_pins(const profile& p, const cluster& c, const plan_request& request);

/// Indices of the layers that "block1" (that name, and all that begin with "block1.") or "a..b" (from layer a to layer
/// b in the profile's order) names. Throws std::invalid_argument where there are none.
std::vector<int> layers_named(const profile& p, const std::string& pattern);

} // namespace penstock::planner
