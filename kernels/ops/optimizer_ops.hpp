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

struct adamw_args {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
  float gradient_scale = 1;
  std::int64_t step = 1; // 1 for the first update (bias correction)
};

/// All tensors of a step have the parameter's shape and format; `next` may be the same tensor as `weight`. True when
/// every value written into `next` is finite.
class optimizer_ops {
public:
  static constexpr std::string_view family = "optimizer steps";
  virtual ~optimizer_ops() = default;

  virtual bool sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                        tensor& next) = 0; // momentum: none when args.momentum is 0; zeros before the first step
  virtual bool adamw_step(const adamw_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                          tensor& second_moment, tensor& next) = 0;
  /// Sum of squares in double; the same for any thread count.
  virtual double sum_of_squares(const tensor& x) = 0;
};

} // namespace penstock
