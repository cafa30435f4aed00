// Softmax cross-entropy over many classes that leaves one label out: a row to a thread, two passes over its logits, and
// one in the backward, whose gradient takes their place.
#include "kernels/check.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/onednn_loss.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/cpu/vector_math.hpp"
#include "kernels/loss_tally.hpp"

#include <cmath>

namespace penstock {

namespace {

constexpr std::int64_t piece = 256; // logits whose exponentials are summed in f32; those sums in double

std::int64_t rows_below(std::int64_t classes) {
  return std::max<std::int64_t>(2, (1 << 13) / std::max<std::int64_t>(classes, 1));
}

struct row_sums {
  double log_sum = 0; // of the exponentials
  double sum = 0;     // of the logits, less the greatest each
  float greatest = 0;
};

[[gnu::always_inline]] inline row_sums sums_of_row(const float* z, std::int64_t classes) {
  row_sums row;
  row.greatest = greatest_of(z, classes);
  const float top = row.greatest;
  double exponentials = 0;
  float shifted[piece], powers[piece];
  for (std::int64_t first = 0; first < classes; first += piece) {
    const std::int64_t count = std::min(piece, classes - first);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      shifted[i] = z[first + i] - top;
      powers[i] = exp_of(shifted[i]);
    }
    exponentials += static_cast<double>(sum_of(powers, count));
    row.sum += static_cast<double>(sum_of(shifted, count));
  }
  row.log_sum = static_cast<double>(top) + std::log(exponentials);
  return row;
}

} // namespace

masked_loss_result onednn_loss::masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                                     const tensor& labels) {
  const std::int64_t classes = logits.dims().back(), rows = labels.elements();
  check(logits.elements() == rows * classes, "masked_cross_entropy needs one label for each row");
  masked_loss_result result;
  result.sums = context_.allocate(dtype::f64, {masked_loss_sums::count}, memory_use::scratch);
  result.log_sums = context_.allocate(dtype::f32, labels.dims(), memory_use::activations);
  const tensor found = context_.allocate(dtype::f64, {rows, 2}, memory_use::scratch); // loss, guessed right
  const float* all = logits.data<float>();
  const auto* label = labels.data<std::int64_t>();
  float* log_sums = result.log_sums.data<float>();
  double* of_row = found.data<double>();
  const double smooth = args.label_smoothing, count = static_cast<double>(classes);
  vector_loop(rows, 1, rows_below(classes), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t n = begin; n < end; ++n) {
      log_sums[n] = 0;
      if (!masked_tally{}.accepts(args, label[n], n, classes)) continue;
      const float *z = all + n * classes, *own = z + label[n];
      const auto row = sums_of_row(z, classes);
      const double greatest = row.greatest;
      log_sums[n] = static_cast<float>(row.log_sum);
      of_row[2 * n] = (1.0 - smooth) * (row.log_sum - static_cast<double>(*own));
      if (smooth > 0) of_row[2 * n] += smooth * ((row.log_sum - greatest) - row.sum / count);
      const bool right = *own == row.greatest && !std::isnan(row.log_sum) && std::find(z, own, *own) == own;
      of_row[2 * n + 1] = right ? 1 : 0;
    }
  });
  masked_tally tally;
  for (std::int64_t n = 0; n < rows; ++n) {
    if (!tally.accepts(args, label[n], n, classes)) continue;
    tally.loss += of_row[2 * n];
    ++tally.counted;
    tally.correct += of_row[2 * n + 1] > 0 ? 1 : 0;
  }
  tally.write(result.sums);
  return result;
}

tensor onednn_loss::masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                                  const tensor& log_sums, float scale) {
  const std::int64_t classes = logits.dims().back();
  tensor dx = logits.is_unique() ? logits : context_.allocate(dtype::f32, logits.dims(), memory_use::gradients);
  const float *all = logits.data<float>(), *sums = log_sums.data<float>();
  const auto* label = labels.data<std::int64_t>();
  float* to = dx.data<float>();
  const float smooth = args.label_smoothing, each = smooth / static_cast<float>(classes) * scale;
  vector_loop(labels.elements(), 1, rows_below(classes), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* z = all + n * classes;
      float* out = to + n * classes;
      if (!masked_tally{}.accepts(args, label[n], n, classes)) {
        std::fill_n(out, classes, 0.0F);
        continue;
      }
      const float log_sum = sums[n];
      // Of the label alone p - 1 + s may cancel: it is formed apart.
      const float own = (exp_of(z[label[n]] - log_sum) - (1.0F - smooth)) * scale - each;
#pragma omp simd
      for (std::int64_t k = 0; k < classes; ++k)
        out[k] = exp_of(z[k] - log_sum) * scale - each;
      out[label[n]] = own;
    }
  });
  return dx;
}

} // namespace penstock
