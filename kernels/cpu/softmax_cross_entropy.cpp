// Softmax cross-entropy over plain logits. Small beside the layers, so plain loops that sum in double.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_loss.hpp"
#include "kernels/loss_tally.hpp"

#include <cmath>
#include <limits>

namespace penstock {

namespace {

// Classes that a sorted list puts before `label`: greater logits, equal ones with a smaller index (PyTorch's argmax),
// and anything that is not a number. So a network whose logits are all equal or not finite is not called right.
std::int64_t rank_of(const float* logits, std::int64_t classes, std::int64_t label) {
  const float own = logits[label];
  if (std::isnan(own)) return std::numeric_limits<std::int64_t>::max(); // `classes` may be less than 5
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const bool before = k < label ? !(own > logits[k]) : k > label && !(own >= logits[k]);
    rank += before ? 1 : 0;
  }
  return rank;
}

} // namespace

loss_result onednn_loss::softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) {
  const std::int64_t samples = logits.dim(0), classes = logits.dim(1);
  check(labels.dims() == shape{samples}, "softmax_cross_entropy needs one label for each sample");
  const tensor plain = context_.in_format(logits, nullptr);
  loss_result result;
  loss_tally tally;
  result.sums = context_.allocate(dtype::f64, {loss_sums::count}, memory_use::scratch);
  result.probabilities = context_.allocate(dtype::f32, logits.dims(), memory_use::activations);
  const double smooth = label_smoothing, each = smooth / static_cast<double>(classes);
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t label = labels.data<std::int64_t>()[n];
    const float* z = plain.data<float>() + n * classes;
    float* p = result.probabilities.data<float>() + n * classes;
    float greatest = z[0];
    for (std::int64_t k = 1; k < classes; ++k)
      greatest = std::max(greatest, z[k]);
    double exponentials = 0, sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double shifted = static_cast<double>(z[k]) - greatest;
      exponentials += std::exp(shifted);
      sum += shifted;
    }
    const double log_sum = std::log(exponentials);
    for (std::int64_t k = 0; k < classes; ++k)
      p[k] = static_cast<float>(std::exp(static_cast<double>(z[k]) - greatest - log_sum));
    if (!tally.accepts(label, n, classes)) continue;
    tally.loss += (1.0 - smooth) * (log_sum - (static_cast<double>(z[label]) - greatest));
    if (smooth > 0) tally.loss += each * (static_cast<double>(classes) * log_sum - sum);
    tally.count(rank_of(z, classes, label));
  }
  tally.write(result.sums);
  return result;
}

tensor onednn_loss::softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels,
                                                   float label_smoothing, float scale) {
  const std::int64_t samples = probabilities.dim(0), classes = probabilities.dim(1);
  tensor dx = context_.allocate(dtype::f32, probabilities.dims(), memory_use::gradients);
  const double smooth = label_smoothing, each = smooth / static_cast<double>(classes);
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t label = labels.data<std::int64_t>()[n];
    const float* p = probabilities.data<float>() + n * classes;
    float* out = dx.data<float>() + n * classes;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = each + (k == label ? 1.0 - smooth : 0.0);
      out[k] = static_cast<float>((static_cast<double>(p[k]) - target) * scale);
    }
  }
  return dx;
}

} // namespace penstock
