// The loss head that the last stage puts behind its layers.
#pragma once

#include "kernels/backend.hpp"

namespace penstock {

struct loss_metrics {
  double loss_sum = 0; ///< over the samples, not their mean
  std::int64_t samples = 0;
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;

  loss_metrics& operator+=(const loss_metrics& other) {
    loss_sum += other.loss_sum;
    samples += other.samples;
    correct_top1 += other.correct_top1;
    correct_top5 += other.correct_top5;
    return *this;
  }
};

/// Of the sums of a loss (loss_sums, in the host's memory) over so many samples. Throws penstock::error for a label
/// outside [0, classes).
loss_metrics read_metrics(const tensor& sums, std::int64_t samples, std::int64_t classes);

/// Softmax cross-entropy over (N, classes) logits with i64 labels (N), label smoothing as PyTorch.
class softmax_cross_entropy {
public:
  explicit softmax_cross_entropy(float label_smoothing = 0) : label_smoothing_(label_smoothing) {}

  struct forward_value {
    tensor sums; ///< loss_sums, on the device
    tensor probabilities;
    tensor labels;
  };
  forward_value forward(backend& ops, const tensor& logits, const tensor& labels) const;
  /// Gradient of loss_sum * scale with respect to the logits; scale is 1 / samples of the minibatch.
  tensor backward(backend& ops, const forward_value& value, float scale) const;

private:
  float label_smoothing_;
};

} // namespace penstock
