// Fully connected layer.
#pragma once

#include "kernels/layer.hpp"

#include <optional>
#include <string>

namespace penstock::layers {

struct linear_options {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// Unset: PyTorch's default, uniform(+-1/sqrt(in_features)) for weight and bias.
  std::optional<initializer> weight_init{};
  std::optional<initializer> bias_init{};
  std::string weight_name = "weight"; ///< of the parameters: "in_proj_weight", "decoder.weight"
  std::string bias_name = "bias";
  float bias_rate = 1; ///< factor on the bias's learning rate
};

/// (N, ..., in_features) -> (N, ..., out_features). Parameters weight, bias, or as named. Computes a ReLU, GELU, tanh or logistic
/// function behind it within itself.
layer_ptr linear(linear_options options);

} // namespace penstock::layers
