// Dropout.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// Of any shape, with probability p in [0, 1); nothing in evaluation.
layer_ptr dropout(float p);

} // namespace penstock::layers
