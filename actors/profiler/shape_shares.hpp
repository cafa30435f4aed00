// How long the sequences of an epoch's minibatches are, in a few numbers.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"

#include <vector>

namespace penstock::actors {

struct shape_share {
  std::vector<std::int64_t> extents; ///< by model::extents()
  double share = 0;                  ///< of the epoch's minibatches
};

/// At most `most` shapes whose shares add up to 1: those of the first epoch's minibatches, or means of about equally
/// many each where there are more. Behind them, with share 0, the largest extents, which decide about memory, unless
/// they are among them. Empty where no extent of the model varies. Throws as bind_data().
std::vector<shape_share> shape_shares(const model& net, const dataset& data, const batching& how, std::size_t most = 4);

/// Of all shares together; empty of none.
std::vector<std::int64_t> mean_extents(const std::vector<shape_share>& shares);

} // namespace penstock::actors
