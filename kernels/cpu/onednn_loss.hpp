// Losses in plain loops that sum in double: small beside the layers.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/loss_ops.hpp"

namespace penstock {

class onednn_loss final : public loss_ops {
public:
  explicit onednn_loss(onednn_context& context) : context_(context) {}

  loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) override;
  tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels, float label_smoothing,
                                        float scale) override;
  masked_loss_result masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                          const tensor& labels) override;
  tensor masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                       const tensor& log_sums, float scale) override;

private:
  onednn_context& context_;
};

} // namespace penstock
