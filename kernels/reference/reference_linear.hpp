// Products of matrices by the definition, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/linear_ops.hpp"

namespace penstock {

class reference_linear final : public linear_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_linear(backend& memory) : memory_(memory) {}

  format_ptr linear_weight_format(const shape& x, const shape& weight) override;
  tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) override;
  layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y, bool relu,
                                  tensor dy, bool want_dx, bool want_dw) override;

private:
  backend& memory_;
};

} // namespace penstock
