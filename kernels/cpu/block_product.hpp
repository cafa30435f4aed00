// Products of small matrices that lie in a cache, on the calling thread.
#pragma once

#include <cstdint>

namespace penstock {

/// Rows of a result that are computed at once, and columns that a register holds: extents are filled up to these.
inline constexpr std::int64_t product_rows = 6;
inline constexpr std::int64_t product_columns = 16;

constexpr std::int64_t filled_up(std::int64_t extent, std::int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

struct block_product_args {
  const float* a; ///< element (i, k) at a[i a_row + k a_step]
  std::int64_t a_row, a_step;
  const float* b; ///< element (k, j) at b[k b_row + j]
  std::int64_t b_row;
  float* c; ///< element (i, j) at c[i c_row + j]
  std::int64_t c_row;
  std::int64_t rows, columns; ///< of c: multiples of product_rows and product_columns
  std::int64_t depth;
  bool add; ///< onto what is in c
};

/// c = a b, or c += a b, in f32; each element is summed over k in order.
void block_product(const block_product_args& args);

/// `to` in panels of 64 columns, one behind another, each `columns` rows of 64: panel p is columns [64 p, 64 p + 64) of
/// the transpose of `from` (rows x columns, packed; both multiples of 16).
inline constexpr std::int64_t panel_columns = 64;
void transpose_into_panels(const float* from, std::int64_t rows, std::int64_t columns, float* to);

} // namespace penstock
