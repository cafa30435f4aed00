// Register tiles for each instruction set, and the loops round them that keep a panel in the second cache.
#include "kernels/cpu/tiles.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace penstock {

namespace {

constexpr int vectors = 4;               // of a tile's row
constexpr std::int64_t most_depth = 640; // of a panel at once: 160 KB with the widest vectors

template <int Lanes, int Rows>
PENSTOCK_INLINED void multiply_tile(const float* const* a, const float* panel, std::int64_t depth, float* const* out,
                                    bool add, const float* start, const float* ahead) {
  using vec = typename lanes_of<Lanes>::vec;
  using mem = typename lanes_of<Lanes>::mem;
  vec sums[Rows][vectors];
  const float* rows[Rows];
  for (int r = 0; r < Rows; ++r) {
    rows[r] = a[r];
    for (int v = 0; v < vectors; ++v) {
      if (add)
        sums[r][v] = *reinterpret_cast<const mem*>(out[r] + v * Lanes);
      else if (start != nullptr)
        sums[r][v] = *reinterpret_cast<const mem*>(start + v * Lanes);
      else
        sums[r][v] = vec{};
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    vec columns[vectors];
    for (int v = 0; v < vectors; ++v)
      columns[v] = *reinterpret_cast<const vec*>(panel + v * Lanes);
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < vectors; ++v)
        sums[r][v] += rows[r][k] * columns[v];
    if (ahead != nullptr) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += 16;
    }
    panel += std::int64_t{vectors} * Lanes;
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<mem*>(out[r] + v * Lanes) = sums[r][v];
}

// Lanes of a where the lane's number lacks the bit Distance, of b moved there where it has it; or the other halves.
template <int Lanes, int Distance, bool Upper, std::size_t... Lane>
PENSTOCK_INLINED auto interleaved(const typename lanes_of<Lanes>::vec& a, const typename lanes_of<Lanes>::vec& b,
                                  std::index_sequence<Lane...>) {
  constexpr auto source = [](int lane) {
    if constexpr (Upper) return (lane & Distance) == 0 ? lane + Distance : Lanes + lane;
    return (lane & Distance) == 0 ? lane : Lanes + lane - Distance;
  };
  return __builtin_shufflevector(a, b, source(Lane)...);
}

template <int Lanes, int Distance = 1>
PENSTOCK_INLINED void transpose_square(typename lanes_of<Lanes>::vec (&rows)[Lanes]) {
  if constexpr (Distance < Lanes) {
    for (int r = 0; r < Lanes; ++r) {
      if ((r & Distance) != 0) continue;
      const auto a = rows[r], b = rows[r + Distance];
      rows[r] = interleaved<Lanes, Distance, false>(a, b, std::make_index_sequence<Lanes>{});
      rows[r + Distance] = interleaved<Lanes, Distance, true>(a, b, std::make_index_sequence<Lanes>{});
    }
    transpose_square<Lanes, 2 * Distance>(rows);
  }
}

template <int Lanes>
PENSTOCK_INLINED void transpose_rows(const float* const* rows, std::int64_t count, std::int64_t columns, float* out,
                                     std::int64_t stride) {
  using vec = typename lanes_of<Lanes>::vec;
  using mem = typename lanes_of<Lanes>::mem;
  const std::int64_t whole_rows = count / Lanes * Lanes, whole_columns = columns / Lanes * Lanes;
  for (std::int64_t c = 0; c < whole_columns; c += Lanes)
    for (std::int64_t r = 0; r < whole_rows; r += Lanes) {
      vec square[Lanes];
      for (int i = 0; i < Lanes; ++i)
        square[i] = *reinterpret_cast<const mem*>(rows[r + i] + c);
      transpose_square<Lanes>(square);
      for (int i = 0; i < Lanes; ++i)
        *reinterpret_cast<mem*>(out + (c + i) * stride + r) = square[i];
    }
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = c < whole_columns ? whole_rows : 0; r < count; ++r)
      out[c * stride + r] = rows[r][c];
}

#define PENSTOCK_TILES(name, attribute, lanes)                                                                         \
  template <int Rows>                                                                                                  \
  attribute void multiply_##name(const float* const* a, const float* panel, std::int64_t depth, float* const* out,     \
                                 bool add, const float* start, const float* ahead) {                                   \
    multiply_tile<lanes, Rows>(a, panel, depth, out, add, start, ahead);                                               \
  }                                                                                                                    \
  attribute void transpose_##name(const float* const* rows, std::int64_t count, std::int64_t columns, float* out,      \
                                  std::int64_t stride) {                                                               \
    transpose_rows<lanes>(rows, count, columns, out, stride);                                                          \
  }

PENSTOCK_TILES(baseline, , 4)
#if defined(__x86_64__)
PENSTOCK_TILES(avx2, [[gnu::target("avx2,fma")]], 8)
PENSTOCK_TILES(avx512, [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")]], 16)
#endif
#undef PENSTOCK_TILES

// As many rows as leave registers for the panel's vectors.
constexpr tile_set baseline_tiles{4, 2, {nullptr, multiply_baseline<1>, multiply_baseline<2>}, transpose_baseline};
#if defined(__x86_64__)
constexpr tile_set avx2_tiles{8, 2, {nullptr, multiply_avx2<1>, multiply_avx2<2>}, transpose_avx2};
constexpr tile_set avx512_tiles{16,
                                6,
                                {nullptr, multiply_avx512<1>, multiply_avx512<2>, multiply_avx512<3>,
                                 multiply_avx512<4>, multiply_avx512<5>, multiply_avx512<6>},
                                transpose_avx512};
#endif

constexpr std::int64_t widest_panel = 64;
constexpr std::int64_t cached_floats = 150'000, least_rows = 48;

} // namespace

const tile_set& tiles_of(vector_width width) {
#if defined(__x86_64__)
  if (width == vector_width::avx512) return avx512_tiles;
  if (width == vector_width::avx2) return avx2_tiles;
#else
  static_cast<void>(width);
#endif
  return baseline_tiles;
}

void tile_product::compute(const tile_set& tiles, share rows, share panel_range) const {
  // Rows of a that the second cache holds beside a panel, however deep they are.
  const std::int64_t most = std::max(cached_floats / std::max<std::int64_t>(depth, 1), least_rows) / tiles.rows;
  const std::int64_t parts = (depth + most_depth - 1) / most_depth;
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += most * tiles.rows)
    for (std::int64_t p = panel_range.begin; p < panel_range.end; ++p)
      for (std::int64_t part = 0; part < parts; ++part)
        compute_block(tiles, begin, std::min(rows.end, begin + most * tiles.rows), p, depth * part / parts,
                      depth * (part + 1) / parts, p + 1 < panel_range.end);
}

void tile_product::compute_block(const tile_set& tiles, std::int64_t first_row, std::int64_t last_row,
                                 std::int64_t panel_number, std::int64_t k, std::int64_t k_end,
                                 bool has_next_panel) const {
  const std::int64_t width = tiles.width(), count = last_row - first_row, blocks = tiles.blocks(count);
  const std::int64_t first = panel_number * width, valid = std::min(width, columns - first);
  const std::int64_t part = k_end - k;
  const float* panel = panels + (panel_number * depth + k) * width;
  const bool has_next = has_next_panel || k_end < depth, adds = add || k > 0;
  alignas(64) float edge[tile_set::most_rows][widest_panel] = {};
  std::array<const float*, tile_set::most_rows> left{};
  std::array<float*, tile_set::most_rows> right{};
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = first_row + count * i / blocks, height = first_row + count * (i + 1) / blocks - begin;
    for (std::int64_t r = 0; r < height; ++r) {
      const auto at = static_cast<std::size_t>(r);
      left[at] = a[begin + r] + k;
      right[at] = valid == width ? out[begin + r] + first : edge[r];
      if (valid < width && adds) std::copy_n(out[begin + r] + first, valid, edge[r]);
    }
    // The last blocks of rows fetch what is multiplied next.
    const std::int64_t turn = i - std::max<std::int64_t>(blocks - vectors, 0);
    const float* ahead = has_next && turn >= 0 ? panel + part * width + turn * part * 16 : nullptr;
    tiles.multiply[height](left.data(), panel, part, right.data(), adds, start == nullptr ? nullptr : start + first,
                           ahead);
    for (std::int64_t r = 0; r < height && valid < width; ++r)
      std::copy_n(edge[r], valid, out[begin + r] + first);
  }
}

void pack_panel(const tile_set& tiles, const float* const* rows, std::int64_t depth, std::int64_t first,
                std::int64_t columns, float* panel) {
  const std::int64_t width = tiles.width(), valid = std::min(width, columns - first);
  for (std::int64_t k = 0; k < depth; ++k) {
    std::memcpy(panel + k * width, rows[k] + first, static_cast<std::size_t>(valid) * sizeof(float));
    std::fill(panel + k * width + valid, panel + (k + 1) * width, 0.0F);
  }
}

} // namespace penstock
