// The family of losses.
#pragma once

#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

struct loss_result {
  double loss_sum = 0; // over the samples
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  tensor probabilities; // [N, classes]
};

class loss_ops {
public:
  static constexpr std::string_view family = "losses";
  virtual ~loss_ops() = default;

  /// logits (N, classes), labels i64 (N). Throws penstock::error for a label outside [0, classes).
  virtual loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) = 0;
  /// Gradient of scale * loss_sum.
  virtual tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels,
                                                float label_smoothing, float scale) = 0;
};

} // namespace penstock
