// Losses by the definition, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/loss_ops.hpp"

namespace penstock {

class reference_loss final : public loss_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_loss(backend& memory) : memory_(memory) {}

  loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) override;
  tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels, float label_smoothing,
                                        float scale) override;
  masked_loss_result masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                          const tensor& labels) override;
  tensor masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                       const tensor& log_sums, float scale) override;

private:
  backend& memory_;
};

} // namespace penstock
