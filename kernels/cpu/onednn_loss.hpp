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

private:
  onednn_context& context_;
};

} // namespace penstock
