// Layer normalisation.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

struct layer_norm_options {
  shape normalized; ///< extents of the last axes, over which each sample is normalised, together
  float epsilon = 1e-5F;
  bool bias = true;
};

/// (N, ..., normalized) -> the same, as torch.nn.LayerNorm. Parameters weight, bias, both of shape `normalized`.
layer_ptr layer_norm(layer_norm_options options);

} // namespace penstock::layers
