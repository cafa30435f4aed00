// The family of optimizer steps, each one fused pass over memory.
#pragma once

#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

struct sgd_args {
  float learning_rate = 0.01F;
  float momentum = 0;
  bool nesterov = false;
  float weight_decay = 0;
  float gradient_scale = 1; // multiplies the gradient first
};

struct adam_args {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
  bool decoupled = true; // AdamW's decay, of the weight itself; else Adam's, a part of the gradient
  float gradient_scale = 1;
  std::int64_t step = 1; // 1 for the first update; 0: moments are not corrected for their start at zero
};

/// All tensors of a step have the parameter's shape and format; `next` may be the same tensor as `weight`. Element
/// `index` of `strange` (i32) becomes 0 where every value written into `next` is finite, else 1.
class optimizer_ops {
public:
  static constexpr std::string_view family = "optimizer steps";
  virtual ~optimizer_ops() = default;

  /// momentum: none when args.momentum is 0; zeros before the first step.
  virtual void sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                        tensor& next, const tensor& strange, std::int64_t index) = 0;
  virtual void adam_step(const adam_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                         tensor& second_moment, tensor& next, const tensor& strange, std::int64_t index) = 0;
  /// average += share * (x - average).
  virtual void count_into_average(float share, const tensor& x, const tensor& average) = 0;
  /// Element `index` of `sums` (f64) becomes the sum of squares, formed in double; the same for any thread count.
  virtual void sum_of_squares(const tensor& x, const tensor& sums, std::int64_t index) = 0;
};

} // namespace penstock
