// The loss head: softmax cross-entropy through the backend.
#include "kernels/loss.hpp"

#include "kernels/ops/loss_ops.hpp"

namespace penstock {

softmax_cross_entropy::forward_value softmax_cross_entropy::forward(backend& ops, const tensor& logits,
                                                                    const tensor& labels) const {
  loss_result result = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, label_smoothing_);
  return {.metrics = {.loss_sum = result.loss_sum,
                      .samples = logits.dim(0),
                      .correct_top1 = result.correct_top1,
                      .correct_top5 = result.correct_top5},
          .probabilities = std::move(result.probabilities),
          .labels = labels};
}

tensor softmax_cross_entropy::backward(backend& ops, const forward_value& value, float scale) const {
  return ops.get<loss_ops>().softmax_cross_entropy_backward(value.probabilities, value.labels, label_smoothing_, scale);
}

} // namespace penstock
