// The loss head: softmax cross-entropy through the backend.
#include "kernels/loss.hpp"

#include "kernels/check.hpp"
#include "kernels/ops/loss_ops.hpp"

namespace penstock {

loss_metrics read_metrics(const tensor& sums, std::int64_t samples, std::int64_t classes) {
  const double* s = sums.data<double>();
  const auto whole = [s](loss_sums::place p) { return static_cast<std::int64_t>(s[p]); };
  if (s[loss_sums::bad_sample] >= 0)
    throw error("label " + std::to_string(whole(loss_sums::bad_label)) + " of sample " +
                std::to_string(whole(loss_sums::bad_sample)) + " is outside 0.." + std::to_string(classes - 1));
  return {.loss_sum = s[loss_sums::loss],
          .samples = samples,
          .correct_top1 = whole(loss_sums::top1),
          .correct_top5 = whole(loss_sums::top5)};
}

softmax_cross_entropy::forward_value softmax_cross_entropy::forward(backend& ops, const tensor& logits,
                                                                    const tensor& labels) const {
  loss_result result = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, label_smoothing_);
  return {.sums = std::move(result.sums), .probabilities = std::move(result.probabilities), .labels = labels};
}

tensor softmax_cross_entropy::backward(backend& ops, const forward_value& value, float scale) const {
  return ops.get<loss_ops>().softmax_cross_entropy_backward(value.probabilities, value.labels, label_smoothing_, scale);
}

} // namespace penstock
