// Buckets from the last layer to the first.
#include "actors/ranks/bucket_plan.hpp"

namespace penstock::actors {

bucket_plan plan_buckets(const stage_unit& s, std::size_t least_bytes) {
  bucket_plan plan;
  const auto& weights = s.weights->tensors; // gradients have their format
  gradient_bucket open{weights.size(), weights.size(), 0};
  for (int layer = s.layers->last() - 1; layer >= s.layers->first(); --layer) {
    while (open.first > s.layers->first_parameter(layer))
      open.bytes += weights[--open.first].bytes();
    if (open.bytes < least_bytes) continue;
    plan.push_back(open);
    open = {open.first, open.first, 0};
  }
  if (open.first != open.last || plan.empty()) plan.push_back(open);
  return plan;
}

} // namespace penstock::actors
