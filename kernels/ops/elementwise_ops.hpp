// The family of operations that treat every element alike or only move elements: sums, ReLU, dropout, concatenation.
#pragma once

#include "kernels/random_key.hpp"
#include "kernels/tensor.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace penstock {

/// On f32 tensors of any format, over all that is stored: padding stays zero.
class elementwise_ops {
public:
  static constexpr std::string_view family = "elementwise operations";
  virtual ~elementwise_ops() = default;

  virtual void accumulate(tensor& into, const tensor& x) = 0; // into += x; shapes equal
  /// y = a + b, ReLU on top when asked. Reuses a's bytes when it is unique.
  virtual tensor add(tensor a, const tensor& b, bool relu) = 0;

  /// A new plain tensor, x times that factor.
  virtual tensor scaled(const tensor& x, float factor) = 0;
  /// f64 [2]: the place of the first NaN or infinity, counted row-major, and that value; place -1 where all are finite,
  /// as other types than f32 and bf16 always are.
  virtual tensor find_nonfinite(const tensor& x) = 0;

  virtual tensor relu_forward(tensor x) = 0;                    // in place when x is unique
  virtual tensor relu_backward(const tensor& y, tensor dy) = 0; // dy where y > 0, else 0; in place when unique

  /// Zeroes each element with probability p and scales the rest by 1/(1-p); element i (counted in the plain row-major
  /// order, whatever the layout) depends on (key, i) alone, and is the same on every backend. The backward is the same
  /// call on dy.
  virtual tensor dropout(const random_key& key, float p, tensor x) = 0;

  /// Along axis 1.
  virtual tensor concat(std::span<const tensor> parts) = 0;
  virtual std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) = 0;
};

} // namespace penstock
