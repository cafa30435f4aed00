// oneDNN's inner products.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/linear_ops.hpp"

namespace penstock {

class onednn_linear final : public linear_ops {
public:
  explicit onednn_linear(onednn_context& context) : context_(context) {}

  format_ptr linear_weight_format(const shape& x, const shape& weight) override;
  tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) override;
  layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y, bool relu,
                                  tensor dy, bool want_dx, bool want_dw) override;

private:
  tensor rows_forward(const tensor& x, const tensor& weight, const tensor& bias);
  layer_gradients rows_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& dy, bool want_dx,
                                bool want_dw);

  struct weight_format_entry {
    format_ptr format;
  };
  struct forward_entry;
  struct backward_entry;

  std::shared_ptr<forward_entry> make_forward(const tensor& x, const tensor& weight, bool has_bias);
  std::shared_ptr<backward_entry> make_backward(const tensor& x, const tensor& weight, bool has_bias);

  onednn_context& context_;
  shape_cache<weight_format_entry> weight_formats_;
  shape_cache<forward_entry> forwards_;
  shape_cache<backward_entry> backwards_;
};

} // namespace penstock
