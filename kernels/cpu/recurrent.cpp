// Locked dropout and AWD-LSTM's penalties: loops over (B, T, F).
#include "kernels/cpu/onednn_recurrent.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/dropout_random.hpp"

#include <numeric>

namespace penstock {

namespace {

std::int64_t rows_below(std::int64_t features) {
  return std::max<std::int64_t>(2, (1 << 15) / std::max<std::int64_t>(features, 1));
}

} // namespace

tensor onednn_recurrent::locked_dropout(const random_key& key, float p, const tensor& x) {
  tensor y = context_.allocate(dtype::f32, x.dims(), memory_use::activations);
  const dropout_random random(key, p);
  const std::int64_t steps = x.dim(1), features = x.dim(2);
  const float* in = x.data<float>();
  float* out = y.data<float>();
  vector_loop(x.dim(0) * steps, 1, rows_below(features), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t first = r / steps * features;
      random.apply(static_cast<std::uint64_t>(first), features, in + r * features, out + r * features);
    }
  });
  return y;
}

tensor onednn_recurrent::penalty_sum(penalty kind, const tensor& h, double factor) {
  const std::int64_t steps = h.dim(1), features = h.dim(2), rows = h.dim(0) * steps;
  const float* x = h.data<float>();
  std::vector<double> sums(static_cast<std::size_t>(rows)); // added in order: the same for any number of threads
  double* by_row = sums.data();
  const bool of_steps = kind == penalty::step;
  vector_loop(rows, 1, rows_below(features), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      if (of_steps && r % steps == 0) continue;
      const float *row = x + r * features, *before = of_steps ? row - features : row;
      const double keeps = of_steps ? 1 : 0;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t f = 0; f < features; ++f) {
        const double value = static_cast<double>(row[f]) - keeps * static_cast<double>(before[f]);
        sum += value * value;
      }
      by_row[r] = sum;
    }
  });
  tensor result = context_.allocate(dtype::f64, {1}, memory_use::scratch);
  result.data<double>()[0] = factor * std::accumulate(sums.begin(), sums.end(), 0.0);
  return result;
}

tensor onednn_recurrent::penalty_gradient(penalty kind, const tensor& h, float factor) {
  const std::int64_t steps = h.dim(1), features = h.dim(2);
  tensor dh = context_.allocate(dtype::f32, h.dims(), memory_use::gradients);
  const float* x = h.data<float>();
  float* out = dh.data<float>();
  const bool of_steps = kind == penalty::step;
  vector_loop(h.dim(0) * steps, 1, rows_below(features), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = x + r * features;
      float* to = out + r * features;
      if (!of_steps) {
        for (std::int64_t f = 0; f < features; ++f)
          to[f] = 2.0F * factor * row[f];
        continue;
      }
      const float* before = r % steps > 0 ? row - features : row;
      const float* after = r % steps + 1 < steps ? row + features : row;
      for (std::int64_t f = 0; f < features; ++f)
        to[f] = 2.0F * factor * ((row[f] - before[f]) - (after[f] - row[f]));
    }
  });
  return dh;
}

} // namespace penstock
