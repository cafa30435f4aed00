// Branches one behind the other, along channels.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// Two or more inputs (N, C_i, ...) that are equal but for C_i -> (N, sum of C_i, ...).
layer_ptr concat();

} // namespace penstock::layers
