// The family of convolution and pooling: operations on windows of images.
#pragma once

#include "kernels/ops/layer_gradients.hpp"

#include <array>
#include <string_view>

namespace penstock {

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

struct pool_result {
  tensor y;
  tensor workspace; // where each maximum was
};

/// Images are (N, C, H, W) in the activation format. An output gradient passed by rvalue may be overwritten when it is
/// unique. Where `relu` is fused, y is after ReLU and the matching backward takes the gradient of that y.
class convolution_ops {
public:
  static constexpr std::string_view family = "convolution and pooling";
  virtual ~convolution_ops() = default;

  /// In which format a weight (O, C/groups, KH, KW) is kept for inputs like x, and not a function of the batch.
  virtual format_ptr conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) = 0;
  /// x (N, C, H, W), weight (O, C/groups, KH, KW) in the format above, bias (O) or none -> y (N, O, H', W').
  virtual tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                                bool relu) = 0;
  /// y is needed only when ReLU was fused.
  virtual layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                          const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) = 0;

  virtual pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) = 0;
  virtual tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace,
                                 const tensor& dy) = 0;
  /// PyTorch's bins: rows floor(i*H/OH) to ceil((i+1)*H/OH).
  virtual tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) = 0;
  virtual tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) = 0;
};

} // namespace penstock
