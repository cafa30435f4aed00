// oneDNN's convolutions and maximum pooling; loops for averages.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/convolution_ops.hpp"

namespace penstock {

struct average_bins;

/// Bodies are in convolution.cpp, pooling.cpp and average_pooling.cpp.
class onednn_convolution final : public convolution_ops {
public:
  explicit onednn_convolution(onednn_context& context) : context_(context) {}

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
  struct weight_format_entry {
    format_ptr format;
  };
  struct forward_entry;
  struct backward_entry;
  struct max_pool_entry;

  std::shared_ptr<forward_entry> make_forward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                              bool has_bias, bool relu);
  void make_backward_weights(backward_entry& entry, const conv2d_args& args, const tensor& x, const tensor& weight,
                             bool has_bias);
  void make_backward_data(backward_entry& entry, const conv2d_args& args, const tensor& x, const tensor& weight);
  std::shared_ptr<max_pool_entry> make_max_pool(const pool2d_args& args, const shape& x, bool training);
  tensor average_pool_forward(const average_bins& bins, const tensor& x);
  tensor average_pool_backward(const average_bins& bins, const shape& x, const tensor& dy);

  onednn_context& context_;
  shape_cache<weight_format_entry> weight_formats_;
  shape_cache<forward_entry> forwards_;
  shape_cache<backward_entry> backwards_;
  shape_cache<max_pool_entry> max_pool_forwards_;
  shape_cache<max_pool_entry> max_pool_backwards_;
};

} // namespace penstock
