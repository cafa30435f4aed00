// Max and average pooling.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/convolution_ops.hpp"

namespace penstock::layers {

/// (N, C, H, W) -> (N, C, H', W').
layer_ptr pool2d(pool2d_args args);

} // namespace penstock::layers
