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

/// Places in a tensor of sums over the labels of a loss that leaves some out.
namespace masked_loss_sums {
enum place : std::uint8_t {
  loss,
  counted,   ///< labels that were not left out
  correct,   ///< of those, guessed right: the label's logit is the first of the greatest
  bad_place, ///< the first label that is neither a class nor the one left out, counted row-major; -1 for none
  bad_label, ///< and that label, which adds nothing
  count
};
} // namespace masked_loss_sums

struct masked_loss_args {
  std::int64_t ignored = -100; ///< the label that is left out
  bool ignores_beyond = false; ///< labels of V or more are left out as well
  float label_smoothing = 0;   ///< s: the target is 1 - s of the label and s / V of every class
};

struct masked_loss_result {
  tensor sums;     // f64 [masked_loss_sums::count]
  tensor log_sums; // f32, of the labels' shape: log of the sum of exp of the logits, 0 where the label is left out
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

  /// logits (..., V), labels i64 (...), both plain. The loss is a sum: PyTorch's cross_entropy with reduction "sum",
  /// label_smoothing and ignore_index, and the one of GNMT.
  virtual masked_loss_result masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                                  const tensor& labels) = 0;
  /// Gradient of scale * loss; in the place of the logits when they are unique.
  virtual tensor masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                               const tensor& log_sums, float scale) = 0;
};

} // namespace penstock
