// Softmax cross-entropy with label smoothing, its gradient, and the ranks that top-1 and top-5 count.
#include "kernels/check.hpp"
#include "kernels/loss_tally.hpp"
#include "kernels/reference/reference_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {

namespace {

// How many classes come before `label`: those with a greater logit, and equal ones in front. NaN never wins.
std::int64_t rank_of(std::span<const float> logits, std::int64_t label) {
  const float own = logits[static_cast<std::size_t>(label)];
  if (std::isnan(own)) return std::numeric_limits<std::int64_t>::max();
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(logits.size()); ++k) {
    const float other = logits[static_cast<std::size_t>(k)];
    const bool before = k < label ? !(own > other) : !(own >= other);
    if (k != label && before) ++rank;
  }
  return rank;
}

} // namespace

loss_result reference_loss::softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) {
  const std::int64_t samples = logits.dim(0), classes = logits.dim(1);
  check(labels.dims() == shape{samples}, "softmax_cross_entropy: one label for each sample is wanted");
  loss_result result;
  loss_tally tally;
  result.sums = memory_.allocate(dtype::f64, {loss_sums::count}, memory_use::scratch);
  result.probabilities = memory_.allocate_activation(logits.dims());
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::span<const float> z(logits.data<float>() + n * classes, static_cast<std::size_t>(classes));
    const std::int64_t label = labels.data<std::int64_t>()[n];
    const double greatest = *std::max_element(z.begin(), z.end());
    double exponentials = 0;
    for (const float value : z)
      exponentials += std::exp(value - greatest);
    const double log_sum = greatest + std::log(exponentials);

    double smooth_loss = 0; // mean over the classes of -log p
    for (std::int64_t k = 0; k < classes; ++k) {
      const double log_probability = z[static_cast<std::size_t>(k)] - log_sum;
      smooth_loss -= log_probability / static_cast<double>(classes);
      result.probabilities.data<float>()[n * classes + k] = static_cast<float>(std::exp(log_probability));
    }
    if (!tally.accepts(label, n, classes)) continue;
    const double own_loss = log_sum - z[static_cast<std::size_t>(label)];
    tally.loss += (1.0 - label_smoothing) * own_loss;
    if (label_smoothing > 0) tally.loss += label_smoothing * smooth_loss;
    tally.count(rank_of(z, label));
  }
  tally.write(result.sums);
  return result;
}

tensor reference_loss::softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels,
                                                      float label_smoothing, float scale) {
  const std::int64_t samples = probabilities.dim(0), classes = probabilities.dim(1);
  tensor dx = memory_.allocate_activation(probabilities.dims());
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t label = labels.data<std::int64_t>()[n];
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = (k == label ? 1.0 - label_smoothing : 0.0) + label_smoothing / static_cast<double>(classes);
      const double p = probabilities.data<float>()[n * classes + k];
      dx.data<float>()[n * classes + k] = static_cast<float>((p - target) * scale);
    }
  }
  return dx;
}

} // namespace penstock
