// Rectified linear unit.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// max(x, 0) of any shape.
layer_ptr relu();

/// Whether it is the layer above and nothing else, for layers before it that can compute it within themselves.
bool is_relu(const layer& op);

} // namespace penstock::layers
