// Squares of gradients over an interval, as a freeze_decider takes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace penstock::actors {

/// Of one parameter: the squares of its updates' mean gradients before any clipping, and how many updates there were.
struct gradient_sum_of {
  double squares = 0;
  std::int64_t updates = 0;

  friend bool operator==(const gradient_sum_of&, const gradient_sum_of&) = default;
};
/// By the parameter's global name, so that no partition matters.
using gradient_sums = std::map<std::string, gradient_sum_of>;

/// What came later is added to what came before.
inline void add(const gradient_sums& later, gradient_sums& sums) {
  for (const auto& [name, one] : later) {
    auto& sum = sums[name];
    sum.squares += one.squares;
    sum.updates += one.updates;
  }
}

} // namespace penstock::actors
