// What the backward operations of layers with parameters return.
#pragma once

#include "kernels/tensor.hpp"

namespace penstock {

/// Gradients that a layer's backward hands out; "none" tensors where not wanted.
struct layer_gradients {
  tensor input;
  tensor weight;
  tensor bias;
};

} // namespace penstock
