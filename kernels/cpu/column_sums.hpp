// Sums of columns in an order that does not depend on the number of threads.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/cpu/vector_loop.hpp"

namespace penstock {

/// Rows that are summed in f32; their sums are added up in double.
inline constexpr std::int64_t rows_together = 32;

/// out[c] = the sum over the groups of partial[group stride + c], in order, in double.
inline void sum_groups(const float* partial, std::int64_t groups, std::int64_t stride, std::int64_t length,
                       float* out) {
  constexpr std::int64_t width = 64; // columns at once: their sums stay in registers and the first cache
  vector_loop(length, width, 1 << 12, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t first = begin; first < end; first += width) {
      const std::int64_t count = std::min(width, end - first);
      double sum[width] = {};
      for (std::int64_t group = 0; group < groups; ++group) {
        const float* row = partial + group * stride + first;
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c)
          sum[c] += static_cast<double>(row[c]);
      }
      for (std::int64_t c = 0; c < count; ++c)
        out[first + c] = static_cast<float>(sum[c]);
    }
  });
}

/// out[c] = the sum of column c of x (rows x columns, packed).
inline void column_sums(onednn_context& context, const float* x, std::int64_t rows, std::int64_t columns, float* out) {
  const std::int64_t groups = (rows + rows_together - 1) / rows_together;
  const tensor partial = context.allocate(dtype::f32, {groups, columns}, memory_use::scratch);
  float* sums = partial.data<float>();
  const std::int64_t serial_below = (1 << 15) / std::max<std::int64_t>(columns * rows_together, 1) + 2;
  vector_loop(groups, 1, serial_below, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t group = begin; group < end; ++group) {
      float* own = sums + group * columns;
      std::fill_n(own, columns, 0.0F);
      for (std::int64_t r = group * rows_together; r < std::min(rows, (group + 1) * rows_together); ++r) {
        const float* row = x + r * columns;
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c)
          own[c] += row[c];
      }
    }
  });
  sum_groups(sums, groups, columns, columns, out);
}

} // namespace penstock
