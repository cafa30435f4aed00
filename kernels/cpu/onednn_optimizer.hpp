// Optimizer steps: one pass over memory each.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/optimizer_ops.hpp"

namespace penstock {

class onednn_optimizer final : public optimizer_ops {
public:
  void sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum, tensor& next,
                const tensor& strange, std::int64_t index) override;
  void adam_step(const adam_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                  tensor& second_moment, tensor& next, const tensor& strange, std::int64_t index) override;
  void count_into_average(float share, const tensor& x, const tensor& average) override;
  void sum_of_squares(const tensor& x, const tensor& sums, std::int64_t index) override;

private:
  std::vector<double> partial_sums_;
};

} // namespace penstock
