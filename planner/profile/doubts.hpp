// Where a profile contradicts itself: a disturbed machine measures what cannot be.
#pragma once

#include "planner/profile/profile.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::planner {

struct doubt {
  std::string text;                      ///< "32 samples take 3.1 times as long as 16, with 2 threads"
  std::vector<std::size_t> measurements; ///< that say so: indices
};

/// A batch that takes half as long again as its share of a smaller one's time, or a fifth less than the smaller one;
/// threads that are faster than their number by a third, or fewer threads that are faster by half; repeats whose middle
/// half spreads over more than 30% of their median. Of sizes, neighbours are compared.
std::vector<doubt> doubts_of(const profile& p);

} // namespace penstock::planner
