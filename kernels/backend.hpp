// The operations a device must offer to layers, losses and optimizers. One implementation per library: oneDNN (cpu/),
// plain loops (reference/), cuDNN and cuBLASLt (cuda/).
#pragma once

#include "kernels/tensor.hpp"

#include <optional>
#include <span>
#include <vector>

namespace penstock {

class device;

struct conv2d_args {
  std::array<std::int64_t, 2> stride{1, 1}; // height, width
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1}; // 1: dense, as PyTorch counts
  std::int64_t groups = 1;
};

enum class pool_kind : std::uint8_t { max, average };

struct pool2d_args {
  pool_kind kind = pool_kind::max;
  std::array<std::int64_t, 2> kernel{2, 2};
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 2> padding{0, 0};
  bool ceil_mode = false;
  bool count_include_pad = true; // average only, as PyTorch's default
};

struct batch_norm_args {
  float epsilon = 1e-5F;
  float momentum = 0.1F; // running = (1 - momentum) * running + momentum * batch
};

/// A random stream that depends on what is computed, never on where or when.
struct random_key {
  std::uint64_t seed = 0;
  std::uint64_t layer = 0; // hash of the layer's global name
  std::int64_t minibatch = 0;
  std::int32_t microbatch = 0;
};

struct sgd_args {
  float learning_rate = 0.01F;
  float momentum = 0;
  bool nesterov = false;
  float weight_decay = 0;
  float gradient_scale = 1; // multiplies the gradient first
};

struct adamw_args {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
  float gradient_scale = 1;
  std::int64_t step = 1; // 1 for the first update (bias correction)
};

/// Gradients that a layer's backward hands out; "none" tensors where not wanted.
struct layer_gradients {
  tensor input;
  tensor weight;
  tensor bias;
};

struct batch_norm_result {
  tensor y;
  tensor mean;      // [C] of this micro-batch
  tensor variance;  // [C], biased
  tensor workspace; // which outputs ReLU let through, when fused
};

struct pool_result {
  tensor y;
  tensor workspace; // where each maximum was
};

struct loss_result {
  double loss_sum = 0; // over the samples
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  tensor probabilities; // [N, classes]
};

/// Operations on one stream of one device; called only from work posted to that stream. Primitives are cached by shape,
/// so the first call with a shape is slower. Activations are f32: rank 4 in the device's one fixed layout
/// (`activation_format`), other ranks plain. An output gradient passed by rvalue may be overwritten when it is unique.
/// Where `relu` is fused, `y` is after ReLU and the matching backward takes the gradient of that y.
class backend {
public:
  virtual ~backend() = default;
  virtual penstock::device& device() = 0;

  // -- tensors ----------------------------------------------------------------

  /// The one layout that rank-4 activations of this shape have on this device; null for plain. Depends on C alone.
  virtual format_ptr activation_format(const shape& dims) = 0;
  /// Uninitialised, in the activation layout.
  tensor allocate_activation(shape dims);
  /// Uninitialised, any format.
  tensor allocate(dtype type, shape dims, memory_use use, format_ptr format = nullptr);
  /// All bytes zero, padding included.
  tensor allocate_zeroed(dtype type, shape dims, memory_use use, format_ptr format = nullptr);
  /// The same values in another format; no copy when it has it already.
  virtual tensor reorder(const tensor& x, format_ptr format, memory_use use) = 0;
  tensor to_plain(const tensor& x, memory_use use = memory_use::scratch) { return reorder(x, nullptr, use); }
  /// Puts the rows of `plain` (along axis 0) in the place of as many rows of `target`, whatever its format, from row
  /// `first` on. Both have the same number of axes. Rows go in whole blocks of row_block, counted from row 0; the last
  /// block may be shorter.
  virtual void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) = 0;
  static constexpr std::int64_t row_block = 64;
  virtual void fill(tensor& x, float value) = 0;              // f32; padding stays zero when value is 0
  virtual void accumulate(tensor& into, const tensor& x) = 0; // into += x; formats equal
  /// y = a + b, ReLU on top when asked. Reuses a's bytes when it is unique.
  virtual tensor add(tensor a, const tensor& b, bool relu) = 0;

  // -- layers -----------------------------------------------------------------

  virtual format_ptr conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) = 0;
  /// x (N, C, H, W), weight (O, C/groups, KH, KW) in the format above, bias (O) or none -> y (N, O, H', W').
  virtual tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                                bool relu) = 0;
  /// y is needed only when ReLU was fused.
  virtual layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                          const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) = 0;

  virtual format_ptr linear_weight_format(const shape& x, const shape& weight) = 0;
  /// x (N, I) plain, weight (O, I), bias (O) or none -> y (N, O) plain.
  virtual tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) = 0;
  virtual layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y,
                                          bool relu, tensor dy, bool want_dx, bool want_dw) = 0;

  /// Normalises with the micro-batch's statistics (mean, biased variance per channel over N, H, W).
  virtual batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                 const tensor& shift, bool relu) = 0;
  /// Normalises with given statistics (evaluation).
  virtual tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const tensor& shift, const tensor& mean, const tensor& variance, bool relu) = 0;
  /// weight = gradient of scale, bias = gradient of shift.
  virtual layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) = 0;

  virtual tensor relu_forward(tensor x) = 0;                    // in place when x is unique
  virtual tensor relu_backward(const tensor& y, tensor dy) = 0; // dy where y > 0, else 0; in place when unique

  virtual pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) = 0;
  virtual tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace,
                                 const tensor& dy) = 0;
  /// PyTorch's bins: rows floor(i*H/OH) to ceil((i+1)*H/OH).
  virtual tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) = 0;
  virtual tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) = 0;

  /// (N, C, H, W) -> plain (N, C*H*W), and back to the activation layout.
  virtual tensor flatten_forward(const tensor& x) = 0;
  virtual tensor flatten_backward(const shape& x, const tensor& dy) = 0;

  /// Zeroes each element with probability p and scales the rest by 1/(1-p); element i (counted in the plain row-major
  /// order, whatever the layout) depends on (key, i) alone, and is the same on every backend. The backward is the same
  /// call on dy.
  virtual tensor dropout(const random_key& key, float p, tensor x) = 0;

  /// Along axis 1.
  virtual tensor concat(std::span<const tensor> parts) = 0;
  virtual std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) = 0;

  /// logits (N, classes), labels i64 (N). Throws penstock::error for a label outside [0, classes).
  virtual loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) = 0;
  /// Gradient of scale * loss_sum.
  virtual tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels,
                                                float label_smoothing, float scale) = 0;

  // -- optimizers: one fused pass; `next` may be the same tensor as `weight` ----
  // True when every value written into `next` is finite.

  virtual bool sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                        tensor& next) = 0; // momentum: none when args.momentum is 0; zeros before the first step
  virtual bool adamw_step(const adamw_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                          tensor& second_moment, tensor& next) = 0;
  /// Sum of squares in double; the same for any thread count.
  virtual double sum_of_squares(const tensor& x) = 0;
};

} // namespace penstock
