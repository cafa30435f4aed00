// How a stage's gradients are cut into buckets for the all-reduce among its replicas.
#pragma once

#include "kernels/segment.hpp"

#include <vector>

namespace penstock::actors {

/// Parameters [first, last) of a stage.
struct gradient_bucket {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t bytes = 0;
};
/// In the order in which a backward finishes them: from the last parameter to the first that is not frozen. At least
/// one, perhaps empty.
using bucket_cuts = std::vector<gradient_bucket>;

/// Whole layers are gathered until a bucket has `least_bytes`: small enough to start early, large enough that the time
/// a message takes to get going does not count. `weights`: the stage's, whose formats gradients have.
bucket_cuts plan_buckets(const segment& layers, const std::vector<tensor>& weights,
                         std::size_t least_bytes = std::size_t{8} << 20);

} // namespace penstock::actors
