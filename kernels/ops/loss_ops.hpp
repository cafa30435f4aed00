// The family of losses.
#pragma once

#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

/// Places in a tensor of sums over the samples of a loss.
namespace loss_sums {
enum place : std::uint8_t {
  loss,
  top1,       ///< samples guessed right
  top5,       ///< samples whose class is among the first five
  bad_sample, ///< the first whose label is outside [0, classes), which is left out; -1 for none
  bad_label,  ///< and that label
  count
};
} // namespace loss_sums

struct loss_result {
  tensor sums;          // f64 [loss_sums::count]
  tensor probabilities; // [N, classes]
};

class loss_ops {
public:
  static constexpr std::string_view family = "losses";
  virtual ~loss_ops() = default;

  /// logits (N, classes), labels i64 (N).
  virtual loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) = 0;
  /// Gradient of scale * loss_sum.
  virtual tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels,
                                                float label_smoothing, float scale) = 0;
};

} // namespace penstock
