// ReLU as an operation of its own, for the families that fuse it.
#pragma once

#include "kernels/cpu/onednn_context.hpp"

namespace penstock {

tensor relu_forward(onednn_context& context, tensor x);                    ///< in place when x is unique
tensor relu_backward(onednn_context& context, const tensor& y, tensor dy); ///< dy where y > 0; in place when unique

} // namespace penstock
