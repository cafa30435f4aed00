// Two-dimensional convolution.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/convolution_ops.hpp"

#include <optional>

namespace penstock::layers {

struct conv2d_options {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::array<std::int64_t, 2> kernel{1, 1};
  conv2d_args args{};
  bool bias = true;
  /// Unset: PyTorch's default, uniform(+-1/sqrt(fan_in)) for weight and bias.
  std::optional<initializer> weight_init{};
  std::optional<initializer> bias_init{};
};

/// (N, C, H, W) -> (N, O, H', W'). Parameters weight, bias. Computes a ReLU behind it within itself.
layer_ptr conv2d(conv2d_options options);

} // namespace penstock::layers
