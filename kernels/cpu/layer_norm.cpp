// Layer normalisation of rows: loops for the widest vectors of the machine that sum in double.
#include "kernels/check.hpp"
#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/onednn_normalisation.hpp"
#include "kernels/cpu/vector_loop.hpp"

#include <cmath>

namespace penstock {

namespace {

constexpr std::int64_t serial_below = 1 << 14; // elements that are not worth a team of threads

std::int64_t rows_below(std::int64_t length) {
  return std::max<std::int64_t>(2, serial_below / length);
}

// The backward of one row: into `out` the gradient of x, and its part of the parameters' into two sums; any may be
// null. `out` may be `dy`.
struct row_backward {
  std::int64_t length;
  const float* scale;

  [[gnu::always_inline]] void operator()(const float* x, const float* dy, float center, float factor, float* out,
                                         float* scale_sums, float* shift_sums) const {
    if (scale_sums != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) {
        scale_sums[i] += dy[i] * ((x[i] - center) * factor);
        shift_sums[i] += dy[i];
      }
    }
    if (out == nullptr) return;
    lanes sums{}, projections{}, g, w, v;
    std::int64_t done = 0;
    for (; done + lane_count <= length; done += lane_count) {
      load(g, dy + done), load(w, scale + done), load(v, x + done);
      g *= w;
      sums += g;
      projections += g * ((v - center) * factor);
    }
    float sum = sum_of(sums), projection = sum_of(projections);
    for (; done < length; ++done) {
      const float weighted = dy[done] * scale[done];
      sum += weighted;
      projection += weighted * ((x[done] - center) * factor);
    }
    const float average = sum / static_cast<float>(length), slope = projection / static_cast<float>(length);
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i)
      out[i] = factor * (dy[i] * scale[i] - average - (x[i] - center) * factor * slope);
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
  const std::int64_t groups = (rows + rows_together - 1) / rows_together;
  const tensor source = context_.in_format(x, nullptr);
  dy = context_.reorder(dy, nullptr, memory_use::gradients);
  tensor dx;
  if (want_dx) dx = dy.is_unique() ? dy : context_.allocate(dtype::f32, x.dims(), memory_use::gradients);
  const tensor sums = want_dw ? context_.allocate(dtype::f32, {groups, 2, length}, memory_use::scratch) : tensor{};
  const float *from = source.data<float>(), *g = dy.data<float>();
  const float *means = saved.mean.data<float>(), *inverses = saved.inverse_deviation.data<float>();
  float *to = want_dx ? dx.data<float>() : nullptr, *partial = want_dw ? sums.data<float>() : nullptr;
  const row_backward one{length, weight.data<float>()};
  vector_loop(groups, 1, rows_below(length) / rows_together + 2,
              [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                for (std::int64_t group = begin; group < end; ++group) {
                  float* own = partial == nullptr ? nullptr : partial + group * 2 * length;
                  if (own != nullptr) std::fill_n(own, 2 * length, 0.0F);
                  for (std::int64_t r = group * rows_together; r < std::min(rows, (group + 1) * rows_together); ++r)
                    one(from + r * length, g + r * length, means[r], inverses[r],
                        to == nullptr ? nullptr : to + r * length, own, own == nullptr ? nullptr : own + length);
                }
              });
  layer_gradients result;
  if (want_dx) result.input = context_.reorder(dx, context_.activation_format(x.dims()), memory_use::gradients);
  if (!want_dw) return result;
  result.weight = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  if (has_bias) result.bias = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  sum_groups(partial, groups, 2 * length, length, result.weight.data<float>());
  if (has_bias) sum_groups(partial + length, groups, 2 * length, length, result.bias.data<float>());
  return result;
}

} // namespace penstock
