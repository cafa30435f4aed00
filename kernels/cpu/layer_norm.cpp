// Layer normalisation of rows: loops for the widest vectors of the machine that sum in double.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_normalisation.hpp"
#include "kernels/cpu/vector_loop.hpp"

#include <cmath>

namespace penstock {

namespace {

constexpr std::int64_t serial_below = 1 << 14; // elements that are not worth a team of threads

std::int64_t rows_below(std::int64_t length) {
  return std::max<std::int64_t>(2, serial_below / length);
}

// Gradients of the parameters of columns [begin, end), summed over the rows in order: the same for any thread count.
struct column_sums {
  static constexpr std::int64_t width = 64; // columns at once: their sums stay in registers and the first cache
  std::int64_t rows, length;
  const float *x, *dy, *mean, *inverse;
  float *dw, *db; // db may be null

  [[gnu::always_inline]] void operator()(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t first = begin; first < end; first += width) {
      const std::int64_t count = std::min(width, end - first);
      double scale[width] = {}, shift[width] = {};
      for (std::int64_t r = 0; r < rows; ++r) {
        const float *row = x + r * length + first, *gradient = dy + r * length + first;
        const double center = mean[r], factor = inverse[r];
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c) {
          const double g = gradient[c];
          scale[c] += g * ((row[c] - center) * factor);
          shift[c] += g;
        }
      }
      for (std::int64_t c = 0; c < count; ++c) {
        dw[first + c] = static_cast<float>(scale[c]);
        if (db != nullptr) db[first + c] = static_cast<float>(shift[c]);
      }
    }
  }
};

} // namespace

layer_norm_result onednn_normalisation::layer_norm_forward(const layer_norm_args& args, const tensor& x,
                                                           const tensor& weight, const tensor& bias) {
  const std::int64_t length = weight.elements(), rows = x.elements() / length;
  const tensor source = context_.in_format(x, nullptr);
  layer_norm_result result;
  tensor y = context_.allocate(dtype::f32, x.dims(), memory_use::activations);
  result.mean = context_.allocate(dtype::f32, {rows}, memory_use::activations);
  result.inverse_deviation = context_.allocate(dtype::f32, {rows}, memory_use::activations);
  const float *from = source.data<float>(), *scale = weight.data<float>();
  const float* shift = bias ? bias.data<float>() : nullptr;
  float *to = y.data<float>(), *means = result.mean.data<float>(), *inverses = result.inverse_deviation.data<float>();
  const double epsilon = args.epsilon, count = static_cast<double>(length);
  vector_loop(rows, 1, rows_below(length), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = from + r * length;
      float* out = to + r * length;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < length; ++i)
        sum += static_cast<double>(in[i]);
      const double mean = sum / count;
      double squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t i = 0; i < length; ++i) {
        const double off = in[i] - mean;
        squares += off * off;
      }
      const double inverse = 1.0 / std::sqrt(squares / count + epsilon);
      // What f32 loses of the mean is taken off apart, so that a row far from zero keeps its digits.
      const auto center = static_cast<float>(mean), rest = static_cast<float>(mean - static_cast<double>(center));
      const auto factor = static_cast<float>(inverse);
      if (shift != nullptr) {
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
          out[i] = ((in[i] - center) - rest) * factor * scale[i] + shift[i];
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
          out[i] = ((in[i] - center) - rest) * factor * scale[i];
      }
      means[r] = center;
      inverses[r] = factor;
    }
  });
  result.y = context_.reorder(y, context_.activation_format(x.dims()), memory_use::activations);
  return result;
}

layer_gradients onednn_normalisation::layer_norm_backward(const tensor& x, const tensor& weight, bool has_bias,
                                                          const layer_norm_result& saved, tensor dy, bool want_dx,
                                                          bool want_dw) {
  check(x.dims() == dy.dims(), "layer_norm_backward needs equal shapes");
  const std::int64_t length = weight.elements(), rows = x.elements() / length;
  const tensor source = context_.in_format(x, nullptr), gradient = context_.in_format(dy, nullptr);
  const float *from = source.data<float>(), *g = gradient.data<float>(), *scale = weight.data<float>();
  const float *means = saved.mean.data<float>(), *inverses = saved.inverse_deviation.data<float>();
  layer_gradients result;
  if (want_dx) {
    tensor dx = context_.allocate(dtype::f32, x.dims(), memory_use::gradients);
    float* to = dx.data<float>();
    const double count = static_cast<double>(length);
    vector_loop(rows, 1, rows_below(length), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      for (std::int64_t r = begin; r < end; ++r) {
        const float *row = from + r * length, *dy_row = g + r * length;
        float* out = to + r * length;
        const float center = means[r], factor = inverses[r];
        double sum = 0, projection = 0;
#pragma omp simd reduction(+ : sum, projection)
        for (std::int64_t i = 0; i < length; ++i) {
          const double weighted = static_cast<double>(dy_row[i]) * static_cast<double>(scale[i]);
          sum += weighted;
          projection += weighted * static_cast<double>((row[i] - center) * factor);
        }
        const auto average = static_cast<float>(sum / count), slope = static_cast<float>(projection / count);
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
          out[i] = factor * (dy_row[i] * scale[i] - average - (row[i] - center) * factor * slope);
      }
    });
    result.input = context_.reorder(dx, context_.activation_format(x.dims()), memory_use::gradients);
  }
  if (!want_dw) return result;
  result.weight = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  if (has_bias) result.bias = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  const column_sums columns{rows,
                            length,
                            from,
                            g,
                            means,
                            inverses,
                            result.weight.data<float>(),
                            has_bias ? result.bias.data<float>() : nullptr};
  const std::int64_t serial_columns =
      std::max<std::int64_t>(2 * column_sums::width, serial_below / std::max<std::int64_t>(rows, 1));
  vector_loop(length, column_sums::width, serial_columns,
              [&columns](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                const column_sums own = columns; // a local copy, which the stores cannot alter
                own(begin, end);
              });
  return result;
}

} // namespace penstock
