// The family of normalisations.
#pragma once

#include "kernels/ops/layer_gradients.hpp"

#include <string_view>

namespace penstock {

struct batch_norm_args {
  float epsilon = 1e-5F;
  float momentum = 0.1F; // running = (1 - momentum) * running + momentum * batch
};

struct batch_norm_result {
  tensor y;
  tensor mean;      // [C] of this micro-batch
  tensor variance;  // [C], biased
  tensor workspace; // which outputs ReLU let through, when fused
};

struct layer_norm_args {
  float epsilon = 1e-5F;
};

struct layer_norm_result {
  tensor y;
  tensor mean;              // [rows]
  tensor inverse_deviation; // [rows], 1 / sqrt(biased variance + epsilon)
};

/// State of a normalisation, written in place: f32 [C] twice, i64 [].
struct running_statistics {
  tensor mean;
  tensor variance; // unbiased
  tensor batches;  // that were counted
};

/// An output gradient passed by rvalue may be overwritten when it is unique. Where `relu` is fused, y is after ReLU and
/// the matching backward takes the gradient of that y.
class normalisation_ops {
public:
  static constexpr std::string_view family = "normalisation";
  virtual ~normalisation_ops() = default;

  /// Normalises (N, C, H, W) with the micro-batch's statistics (mean, biased variance per channel over N, H, W).
  virtual batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                 const tensor& shift, bool relu) = 0;
  /// Counts a micro-batch of `count` values a channel into the running statistics, as PyTorch does.
  virtual void update_running_statistics(const batch_norm_args& args, std::int64_t count,
                                         const batch_norm_result& batch, const running_statistics& running) = 0;
  /// Normalises with given statistics (evaluation).
  virtual tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const tensor& shift, const tensor& mean, const tensor& variance, bool relu) = 0;
  /// weight = gradient of scale, bias = gradient of shift.
  virtual layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) = 0;

  /// Normalises rows, as many elements of x in row-major order as weight has; x of any rank in the activation format,
  /// as are y and the gradient of x. weight and bias, or none, are plain and have one shape, which their gradients get.
  virtual layer_norm_result layer_norm_forward(const layer_norm_args& args, const tensor& x, const tensor& weight,
                                               const tensor& bias) = 0;
  /// `saved`: the forward's, without y.
  virtual layer_gradients layer_norm_backward(const tensor& x, const tensor& weight, bool has_bias,
                                              const layer_norm_result& saved, tensor dy, bool want_dx,
                                              bool want_dw) = 0;
};

} // namespace penstock
