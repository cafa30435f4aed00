// ReLU's backward, for the families that fuse it.
#pragma once

#include "kernels/backend.hpp"

namespace penstock {

/// dy where y > 0, else 0; in place when dy is unique, else in `memory`.
tensor relu_backward(backend& memory, const tensor& y, tensor dy);

} // namespace penstock
