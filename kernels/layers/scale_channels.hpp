// Channels times a number each, plus another.
#pragma once

#include "kernels/layer.hpp"

#include <vector>

namespace penstock::layers {

/// (N, C, H, W) -> the same, x scale[c] + shift[c]; as many of either as channels. Nothing of it is learnt.
layer_ptr scale_channels(std::vector<float> scale, std::vector<float> shift);

} // namespace penstock::layers
