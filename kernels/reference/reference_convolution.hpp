// Convolution and pooling by the definition, in plain loops. Bodies are in convolution.cpp and pooling.cpp.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/convolution_ops.hpp"

namespace penstock {

class reference_convolution final : public convolution_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_convolution(backend& memory) : memory_(memory) {}

  format_ptr conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) override;
  tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                        bool relu) override;
  layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                  const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) override;
  pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) override;
  tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace, const tensor& dy) override;
  tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) override;
  tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) override;

private:
  backend& memory_;
};

} // namespace penstock
