// Buckets from the last layer to the first.
#include "actors/optimizer/bucket_cuts.hpp"

namespace penstock::actors {

bucket_cuts plan_buckets(const segment& layers, const std::vector<tensor>& weights, std::size_t least_bytes) {
  bucket_cuts plan;
  gradient_bucket open{weights.size(), weights.size(), 0};
  for (int layer = layers.last() - 1; layer >= layers.first_active(); --layer) {
    while (open.first > layers.first_parameter(layer))
      open.bytes += weights[--open.first].bytes();
    if (open.bytes < least_bytes) continue;
    plan.push_back(open);
    open = {open.first, open.first, 0};
  }
  if (open.first != open.last || plan.empty()) plan.push_back(open);
  return plan;
}

} // namespace penstock::actors
