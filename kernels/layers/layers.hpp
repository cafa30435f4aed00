// The layers that come with Penstock. Each is a thin, stateless shell: geometry, names and initialisers here,
// arithmetic in the backend. Initialisers and parameter names are PyTorch's.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"

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
layer_ptr conv2d(conv2d_options options); // parameters weight, bias

struct linear_options {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  std::optional<initializer> weight_init{};
  std::optional<initializer> bias_init{};
};
layer_ptr linear(linear_options options); // parameters weight, bias

/// Parameters weight, bias; state running_mean, running_var (unbiased), num_batches_tracked (i64, shape []).
layer_ptr batch_norm2d(std::int64_t channels, batch_norm_args args = {});

layer_ptr relu();
layer_ptr pool2d(pool2d_args args);
layer_ptr adaptive_average_pool2d(std::array<std::int64_t, 2> output);
layer_ptr flatten(); ///< from axis 1
layer_ptr dropout(float p);
layer_ptr add();    ///< two inputs of one shape
layer_ptr concat(); ///< two or more inputs, along channels

} // namespace penstock::layers
