// The family of smooth activations: GELU, tanh, the logistic function, softmax.
#pragma once

#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

enum class activation_kind : std::uint8_t {
  gelu_erf,  ///< x/2 (1 + erf(x / sqrt 2)) (Hendrycks and Gimpel 2016)
  gelu_tanh, ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the same paper's approximation
  tanh,
  sigmoid ///< 1 / (1 + exp(-x))
};

/// "gelu", "gelu_tanh", "tanh", "sigmoid"
constexpr std::string_view name_of(activation_kind kind) {
  constexpr std::string_view names[] = {"gelu", "gelu_tanh", "tanh", "sigmoid"};
  return names[static_cast<std::size_t>(kind)];
}

/// Does the backward need x? Else it needs y.
constexpr bool keeps_input(activation_kind kind) {
  return kind == activation_kind::gelu_erf || kind == activation_kind::gelu_tanh;
}

/// On f32 tensors of any format. The same bits for any number of threads.
class activation_ops {
public:
  static constexpr std::string_view family = "activations";
  virtual ~activation_ops() = default;

  virtual tensor activate(activation_kind kind, tensor x) = 0; // in place when x is unique
  /// `kept`: the forward's x or y, as keeps_input says. In place when dy is unique.
  virtual tensor activate_backward(activation_kind kind, const tensor& kept, tensor dy) = 0;

  /// Over the last axis. In place when x is unique.
  virtual tensor softmax(tensor x) = 0;
  /// dx = y (dy - sum of y dy). In place when dy is unique.
  virtual tensor softmax_backward(const tensor& y, tensor dy) = 0;
};

} // namespace penstock
