// Products of matrices in register tiles, for operations that do more than a product with each tile while it is in
// cache. Every element is a sum in the order of its terms: the same bits for any number of threads and any blocks.
#pragma once

#include "kernels/cpu/lane_math.hpp"

#include <algorithm>
#include <cstdint>

namespace penstock {

/// What of [0, count) a member of a team does.
struct share {
  std::int64_t begin, end;
  share(std::int64_t count, int member, int team) : begin(count * member / team), end(count * (member + 1) / team) {}
};

/// The tiles of one instruction set: some rows by four vectors. A panel is that many columns of the right matrix, row
/// by row.
struct tile_set {
  /// out[r][c] = the sum of a[r][k] panel[k][c], begun with what is in out, else with `start`, else with 0. Rows are
  /// where the pointers say. `ahead`, or null, is fetched into the cache meanwhile, 16 floats for each k.
  using product = void (*)(const float* const* a, const float* panel, std::int64_t depth, float* const* out, bool add,
                           const float* start, const float* ahead);
  /// out[c * stride + r] = rows[r][c], for so many rows and columns.
  using transposition = void (*)(const float* const* rows, std::int64_t count, std::int64_t columns, float* out,
                                 std::int64_t stride);

  static constexpr int most_rows = 6;
  int lanes;                       ///< floats in a vector
  int rows;                        ///< of the largest tile
  product multiply[most_rows + 1]; ///< by rows, from 1
  transposition transpose;

  std::int64_t width() const { return std::int64_t{4} * lanes; }
  std::int64_t panels(std::int64_t columns) const { return (columns + width() - 1) / width(); }
  std::int64_t blocks(std::int64_t row_count) const { return (row_count + rows - 1) / rows; }
};

/// Of that instruction set, which the machine must have.
const tile_set& tiles_of(vector_width width);

/// rows[m][n] (+)= sum over k of a[m][k] b[k][n], b in panels of `depth` rows one behind another, zero beyond n.
struct tile_product {
  const float* const* a; ///< pointers to rows of depth floats
  std::int64_t depth;
  const float* panels; ///< aligned to 64 bytes
  std::int64_t columns;
  float* const* out;            ///< pointers to rows of `columns` floats
  bool add = false;             ///< to what is there
  const float* start = nullptr; ///< or to this, columns rounded up to whole panels

  /// For those rows, and the columns of those panels.
  void compute(const tile_set& tiles, share rows, share panel_range) const;

private:
  void compute_block(const tile_set& tiles, std::int64_t first_row, std::int64_t last_row, std::int64_t panel_number,
                     std::int64_t k, std::int64_t k_end, bool has_next_panel) const;
};

/// One panel: columns [first, first + width) of a matrix whose rows are there; zero from column `columns` on.
void pack_panel(const tile_set& tiles, const float* const* rows, std::int64_t depth, std::int64_t first,
                std::int64_t columns, float* panel);

} // namespace penstock
