// From images, or anything with a batch axis, to rows of features.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// (N, ...) -> (N, features): plain, from axis 1.
layer_ptr flatten();

} // namespace penstock::layers
