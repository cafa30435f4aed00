// The truth for every backend: each operation in plain loops over plain tensors, simple enough to be believed at sight.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"

#include <memory>

namespace penstock {

/// Single-threaded; sums are formed in double. Every tensor is plain. Bodies are split by idea: convolution.cpp,
/// linear.cpp, batch_norm.cpp, pooling.cpp, elementwise.cpp, arrange.cpp, softmax.cpp, optimizer_step.cpp.
class reference_backend final : public backend,
                                public convolution_ops,
                                public elementwise_ops,
                                public linear_ops,
                                public loss_ops,
                                public normalisation_ops,
                                public optimizer_ops {
public:
  explicit reference_backend(penstock::device& device);
  penstock::device& device() override { return device_; }

  format_ptr activation_format(const shape& dims) override;
  tensor reorder(const tensor& x, format_ptr format, memory_use use) override;
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) override;
  void fill(tensor& x, float value) override;
  void accumulate(tensor& into, const tensor& x) override;
  tensor add(tensor a, const tensor& b, bool relu) override;

  format_ptr conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) override;
  tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                        bool relu) override;
  layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                  const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) override;

  format_ptr linear_weight_format(const shape& x, const shape& weight) override;
  tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) override;
  layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y, bool relu,
                                  tensor dy, bool want_dx, bool want_dw) override;

  batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                         const tensor& shift, bool relu) override;
  tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale, const tensor& shift,
                                const tensor& mean, const tensor& variance, bool relu) override;
  layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) override;

  tensor relu_forward(tensor x) override;
  tensor relu_backward(const tensor& y, tensor dy) override;

  pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) override;
  tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace, const tensor& dy) override;
  tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) override;
  tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) override;

  tensor dropout(const random_key& key, float p, tensor x) override;
  tensor concat(std::span<const tensor> parts) override;
  std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) override;

  loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) override;
  tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels, float label_smoothing,
                                        float scale) override;

  bool sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                tensor& next) override;
  bool adamw_step(const adamw_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                  tensor& second_moment, tensor& next) override;
  double sum_of_squares(const tensor& x) override;

private:
  tensor allocate_gradient(shape dims); // of a parameter

  penstock::device& device_;
};

std::unique_ptr<backend> make_reference_backend(device& device);

} // namespace penstock
