// Sum of two branches.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// Two inputs of one shape. Computes a ReLU behind it within itself.
layer_ptr add();

} // namespace penstock::layers
