// Softmax.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// Of any shape, over the last axis.
layer_ptr softmax();

} // namespace penstock::layers
