// Average pooling to a given size.
#pragma once

#include "kernels/layer.hpp"

#include <array>

namespace penstock::layers {

/// (N, C, H, W) -> (N, C, output[0], output[1]).
layer_ptr adaptive_average_pool2d(std::array<std::int64_t, 2> output);

} // namespace penstock::layers
