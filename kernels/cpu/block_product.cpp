// Products of small matrices: tiles of the result that stay in registers.
#include "kernels/cpu/block_product.hpp"

#include "kernels/cpu/lanes.hpp"
#include "kernels/vector_width.hpp"

namespace penstock {

namespace {

template <int Vectors>
[[gnu::always_inline]] inline void tile(const block_product_args& p, std::int64_t row, std::int64_t column) {
  constexpr int rows = static_cast<int>(product_rows);
  lanes sum[rows][Vectors], v[Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      if (p.add)
        load(sum[i][j], p.c + (row + i) * p.c_row + column + j * lane_count);
      else
        sum[i][j] = lanes{};
    }
  const float *a = p.a + row * p.a_row, *b = p.b + column;
  const std::int64_t a_row = p.a_row, a_step = p.a_step, b_row = p.b_row, depth = p.depth;
  for (std::int64_t k = 0; k < depth; ++k, a += a_step, b += b_row) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      load(v[j], b + j * lane_count);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] += a[i * a_row] * v[j];
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      store(p.c + (row + i) * p.c_row + column + j * lane_count, sum[i][j]);
}

// Tiles of as many vectors as the registers hold; columns outside, so that their part of b stays in the first cache.
template <int Vectors>
struct tiles {
  const block_product_args& p;

  [[gnu::always_inline]] void operator()(std::int64_t, std::int64_t) const {
    std::int64_t column = 0;
    for (; column + Vectors * lane_count <= p.columns; column += Vectors * lane_count)
      for (std::int64_t row = 0; row < p.rows; row += product_rows)
        tile<Vectors>(p, row, column);
    for (; column < p.columns; column += lane_count)
      for (std::int64_t row = 0; row < p.rows; row += product_rows)
        tile<1>(p, row, column);
  }
};

using lane_numbers = std::int32_t __attribute__((vector_size(64)));

// Swaps the halves off the diagonal of every square of 2 Step.
template <int Step>
[[gnu::always_inline]] inline void swap_halves(lanes* rows) {
  lane_numbers low, high;
  for (int i = 0; i < lane_count; ++i) {
    low[i] = (i & Step) == 0 ? i : i - Step + static_cast<int>(lane_count);
    high[i] = (i & Step) == 0 ? i + Step : i + static_cast<int>(lane_count);
  }
#pragma GCC unroll 16
  for (int i = 0; i < lane_count; ++i)
    if ((i & Step) == 0) {
      const lanes above = rows[i], below = rows[i + Step];
      rows[i] = __builtin_shuffle(above, below, low);
      rows[i + Step] = __builtin_shuffle(above, below, high);
    }
}

} // namespace

void block_product(const block_product_args& args) {
  const auto width = widest_vectors();
  if (width == vector_width::avx512) return run_vectorized(width, 0, 1, tiles<4>{args});
  run_vectorized(width, 0, 1, tiles<1>{args});
}

void transpose_into_panels(const float* from, std::int64_t rows, std::int64_t columns, float* to) {
  run_vectorized(widest_vectors(), 0, rows, [=](std::int64_t, std::int64_t last) PENSTOCK_VECTORIZED {
    for (std::int64_t r = 0; r < last; r += lane_count)
      for (std::int64_t c = 0; c < columns; c += lane_count) {
        lanes square[lane_count];
#pragma GCC unroll 16
        for (int i = 0; i < lane_count; ++i)
          load(square[i], from + (r + i) * columns + c);
        swap_halves<8>(square);
        swap_halves<4>(square);
        swap_halves<2>(square);
        swap_halves<1>(square);
        float* panel = to + r / panel_columns * panel_columns * columns + r % panel_columns;
#pragma GCC unroll 16
        for (int i = 0; i < lane_count; ++i)
          store(panel + (c + i) * panel_columns, square[i]);
      }
  });
}

} // namespace penstock
