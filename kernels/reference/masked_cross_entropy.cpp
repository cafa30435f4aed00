// Softmax cross-entropy that leaves one label out, by the definition.
#include "kernels/check.hpp"
#include "kernels/loss_tally.hpp"
#include "kernels/reference/reference_loss.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

masked_loss_result reference_loss::masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                                        const tensor& labels) {
  const std::int64_t classes = logits.dims().back();
  check(logits.elements() == labels.elements() * classes, "masked_cross_entropy: one label for each row is wanted");
  masked_loss_result result;
  result.sums = memory_.allocate(dtype::f64, {masked_loss_sums::count}, memory_use::scratch);
  result.log_sums = memory_.allocate(dtype::f32, labels.dims(), memory_use::activations);
  masked_tally tally;
  for (std::int64_t n = 0; n < labels.elements(); ++n) {
    const float* z = logits.data<float>() + n * classes;
    const std::int64_t label = labels.data<std::int64_t>()[n];
    result.log_sums.data<float>()[n] = 0;
    if (!tally.accepts(args, label, n, classes)) continue;
    const float* greatest = std::max_element(z, z + classes);
    double exponentials = 0, smooth = 0; // mean over the classes of -log p
    for (std::int64_t k = 0; k < classes; ++k)
      exponentials += std::exp(static_cast<double>(z[k]) - *greatest);
    const double log_sum = *greatest + std::log(exponentials);
    for (std::int64_t k = 0; k < classes; ++k)
      smooth += (log_sum - z[k]) / static_cast<double>(classes);
    tally.loss += (1.0 - args.label_smoothing) * (log_sum - z[label]);
    if (args.label_smoothing > 0) tally.loss += args.label_smoothing * smooth;
    ++tally.counted;
    tally.correct += !std::isnan(log_sum) && greatest == z + label ? 1 : 0;
    result.log_sums.data<float>()[n] = static_cast<float>(log_sum);
  }
  tally.write(result.sums);
  return result;
}

tensor reference_loss::masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                                     const tensor& log_sums, float scale) {
  const std::int64_t classes = logits.dims().back();
  tensor dx = logits.is_unique() ? logits : memory_.allocate_activation(logits.dims());
  for (std::int64_t n = 0; n < labels.elements(); ++n) {
    const float* z = logits.data<float>() + n * classes;
    float* out = dx.data<float>() + n * classes;
    const std::int64_t label = labels.data<std::int64_t>()[n];
    const double log_sum = log_sums.data<float>()[n], each = args.label_smoothing / static_cast<double>(classes);
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = each + (k == label ? 1.0 - args.label_smoothing : 0.0);
      out[k] = masked_tally{}.accepts(args, label, n, classes)
                   ? static_cast<float>((std::exp(z[k] - log_sum) - target) * scale)
                   : 0.0F;
    }
  }
  return dx;
}

} // namespace penstock
