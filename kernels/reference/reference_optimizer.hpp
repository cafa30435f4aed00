// Optimizer steps by their formulas, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/optimizer_ops.hpp"

namespace penstock {

class reference_optimizer final : public optimizer_ops {
public:
  bool sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                tensor& next) override;
  bool adamw_step(const adamw_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                  tensor& second_moment, tensor& next) override;
  double sum_of_squares(const tensor& x) override;
};

} // namespace penstock
