// Counts forwards before they are listed.
#include "tools/schedule_size.hpp"

#include "kernels/check.hpp"

#include <string>

namespace penstock::tools {

void check_schedule_size(const planner::schedule& shape, std::int64_t minibatches) {
  constexpr std::int64_t most_forwards = 2'000'000; // their spans and events take some 400 bytes each
  const auto stages = static_cast<std::int64_t>(shape.stages.size());
  const auto most = most_forwards / stages / shape.microbatches;
  if (minibatches <= most) return;
  const auto each =
      std::to_string(stages) + " stages with " + std::to_string(shape.microbatches) + " micro-batches per minibatch";
  if (most == 0)
    throw usage_error("the schedule: found " + each + ", wanted at most " + std::to_string(most_forwards) +
                      " forwards a minibatch");
  throw usage_error("--minibatches: found " + std::to_string(minibatches) + ", wanted at most " + std::to_string(most) +
                    " of " + each);
}

} // namespace penstock::tools
