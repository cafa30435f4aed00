// How deep a model can be frozen, and what freezing does to it, in a person's words (DESIGN section 7).
#pragma once

#include "kernels/model.hpp"

#include <cstdint>
#include <string>

namespace penstock::actors {

struct freeze_depth {
  int layer = 0;      ///< layers before it can be frozen together; 0: none can
  std::string reason; ///< one clause, why it is not as deep as was wanted: "PARAMETER is used by LAYER too, ..."
};

/// The deepest freeze that is no deeper than `wanted` (layers before it; 0 to the number of layers): a tensor with a
/// use behind it is not frozen, and something is left that a loss trains. `reason` is empty where it is as wanted.
freeze_depth deepest_freeze(const model& net, int wanted);

/// Throws usage_error, one line that names the layer and why, with the deepest that is possible, unless
/// 0 <= frozen_until and deepest_freeze allows it.
void require_freeze(const model& net, int frozen_until);

/// Parameters of layers before that one; a tensor that several use counts once.
std::int64_t frozen_parameters(const model& net, int frozen_until);

/// "frozen until layer2.0.conv1: 157,504 of 11,689,512 parameters", or "" where nothing is.
std::string describe_freeze(const model& net, int frozen_until);

/// What another depth means for those who train on, one line; "" where it is the same.
std::string describe_freeze_change(const model& net, int before, int now);

} // namespace penstock::actors
