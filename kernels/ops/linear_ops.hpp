// The family of linear algebra: products of matrices.
#pragma once

#include "kernels/ops/layer_gradients.hpp"

#include <string_view>

namespace penstock {

/// An output gradient passed by rvalue may be overwritten when it is unique. Where `relu` is fused, y is after ReLU and
/// the matching backward takes the gradient of that y.
class linear_ops {
public:
  static constexpr std::string_view family = "linear algebra";
  virtual ~linear_ops() = default;

  /// In which format a weight (O, I) is kept for inputs like x; a function of shapes alone, and not of the batch. Plain
  /// for sequences, which may share it with an embedding.
  virtual format_ptr linear_weight_format(const shape& x, const shape& weight) = 0;
  /// x (N, ..., I) plain, weight (O, I), bias (O) or none -> y (N, ..., O) plain.
  virtual tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) = 0;
  /// y is needed only when ReLU was fused.
  virtual layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y,
                                          bool relu, tensor dy, bool want_dx, bool want_dw) = 0;
};

} // namespace penstock
