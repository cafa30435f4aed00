// Loops of batch normalisation over images whose channels lie in blocks of `Block` side by side (nChw16c, nChw8c), or
// in planes of their own (Block 1: nchw). Sums are taken in f32 over short runs and in double beyond them.
#pragma once

#include "kernels/cpu/vector_loop.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace penstock::norm_loops {

/// A run's f32 sums lose less than one rounding of a single value: 32 additions into each of two accumulators.
constexpr std::int64_t run_rows = 64;
/// The same for planes, whose rows are single values.
constexpr std::int64_t run_values = 256;

/// Two sums for each channel of a block.
template <int Block>
struct channel_sums {
  std::array<double, Block> first{}, second{};
  void add(const channel_sums& other) {
    for (int c = 0; c < Block; ++c) {
      first[c] += other.first[c];
      second[c] += other.second[c];
    }
  }
};

/// Constants of each channel of a block; zeros for channels that are padding, which so stay zero.
template <int Block>
struct forward_constants {
  std::array<float, Block> mean{}, factor{}, shift{}; // y = (x - mean) * factor + shift
};
template <int Block>
struct backward_constants {
  // dx = (g - gradient_mean) * factor - (x - mean) * slope
  std::array<float, Block> mean{}, gradient_mean{}, factor{}, slope{};
  std::array<float, Block> gate_factor{}, gate_shift{}; // ReLU let through where (x - mean) * factor + shift > 0
};

[[gnu::always_inline]] inline float normalised(float deviation, float factor, float shift) {
  return deviation * factor + shift;
}

// -- sums over one run: rows is a multiple of Ways, and at most run_rows ----------------------------------------------

// Values are summed as deviations from something near their mean, so that f32 has nothing to cancel and one outlier
// costs one rounding: the mean of the part's rows so far, or the run's own where it is the first.
template <int Block>
[[gnu::always_inline]] inline std::array<float, Block> near_mean(const float* x, std::int64_t rows,
                                                                 std::int64_t rows_before, const double* origin,
                                                                 const channel_sums<Block>& sums) {
  std::array<float, Block> near;
  if (rows_before == 0) {
#pragma omp simd simdlen(Block)
    for (int c = 0; c < Block; ++c) {
      float sum = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        sum += x[r * Block + c];
      near[c] = sum / static_cast<float>(rows);
    }
  } else {
    const double inverse = 1.0 / static_cast<double>(rows_before);
#pragma omp simd
    for (int c = 0; c < Block; ++c)
      near[c] = static_cast<float>(origin[c] + sums.first[c] * inverse);
  }
  return near;
}

// The channels are the lanes of a vector (the outer loop is the vectorised one), so that accumulators are registers.
template <int Block, int Ways>
[[gnu::always_inline]] inline void run_of_values(const float* x, std::int64_t rows, std::int64_t rows_before,
                                                 const double* origin, channel_sums<Block>& sums) {
  const auto center = near_mean<Block>(x, rows, rows_before, origin, sums);
  std::array<float, Block> deviations, squares;
#pragma omp simd simdlen(Block)
  for (int c = 0; c < Block; ++c) {
    const float near = center[c];
    float s0 = 0, s1 = 0, q0 = 0, q1 = 0;
    for (std::int64_t r = 0; r < rows; r += Ways) {
      const float* row = x + r * Block + c;
      const float d0 = row[0] - near;
      s0 += d0, q0 += d0 * d0;
      if constexpr (Ways == 2) {
        const float d1 = row[Block] - near;
        s1 += d1, q1 += d1 * d1;
      }
    }
    deviations[c] = s0 + s1;
    squares[c] = q0 + q1;
  }
  const auto count = static_cast<double>(rows);
#pragma omp simd
  for (int c = 0; c < Block; ++c) {
    const double base = static_cast<double>(center[c]) - origin[c];
    sums.first[c] += count * base + deviations[c];
    sums.second[c] += squares[c] + base * (2 * static_cast<double>(deviations[c]) + count * base);
  }
}

template <int Block, int Ways, bool Relu>
[[gnu::always_inline]] inline void run_of_gradients(const float* x, const float* dy, std::int64_t rows,
                                                    const backward_constants<Block>& k, channel_sums<Block>& sums) {
  std::array<float, Block> gradients, products;
#pragma omp simd simdlen(Block)
  for (int c = 0; c < Block; ++c) {
    const float mean = k.mean[c], factor = k.gate_factor[c], shift = k.gate_shift[c];
    float s0 = 0, s1 = 0, p0 = 0, p1 = 0;
    for (std::int64_t r = 0; r < rows; r += Ways) {
      const float* in = x + r * Block + c;
      const float* out = dy + r * Block + c;
      const float d0 = in[0] - mean, v0 = out[0];
      const float g0 = !Relu || normalised(d0, factor, shift) > 0.0F ? v0 : 0.0F;
      s0 += g0, p0 += g0 * d0;
      if constexpr (Ways == 2) {
        const float d1 = in[Block] - mean, v1 = out[Block];
        const float g1 = !Relu || normalised(d1, factor, shift) > 0.0F ? v1 : 0.0F;
        s1 += g1, p1 += g1 * d1;
      }
    }
    gradients[c] = s0 + s1;
    products[c] = p0 + p1;
  }
#pragma omp simd
  for (int c = 0; c < Block; ++c) {
    sums.first[c] += gradients[c];
    sums.second[c] += products[c];
  }
}

// -- sums over `rows` rows of one plane
// ---------------------------------------------------------------------------------

/// Adds sum(x - origin) and sum((x - origin)^2); `rows_before`: how many rows are in the sums already.
template <int Block>
[[gnu::always_inline]] inline void add_values(const float* x, std::int64_t rows, std::int64_t rows_before,
                                              const double* origin, channel_sums<Block>& sums) {
  if constexpr (Block == 1) {
    for (std::int64_t begin = 0; begin < rows; begin += run_values) {
      const std::int64_t end = std::min(begin + run_values, rows);
      const float near = near_mean<Block>(x + begin, end - begin, rows_before + begin, origin, sums)[0];
      float deviation = 0, square = 0;
#pragma omp simd reduction(+ : deviation, square)
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = x[i] - near;
        deviation += d;
        square += d * d;
      }
      const double base = static_cast<double>(near) - origin[0], count = static_cast<double>(end - begin);
      sums.first[0] += count * base + deviation;
      sums.second[0] += square + base * (2 * static_cast<double>(deviation) + count * base);
    }
  } else {
    const std::int64_t whole = rows / 2 * 2;
    for (std::int64_t r = 0; r < whole; r += run_rows)
      run_of_values<Block, 2>(x + r * Block, std::min(whole - r, run_rows), rows_before + r, origin, sums);
    if (rows != whole) run_of_values<Block, 1>(x + whole * Block, rows - whole, rows_before + whole, origin, sums);
  }
}

/// Adds sum(g) and sum(g * (x - mean)) of the gradients g that ReLU lets through.
template <int Block, bool Relu>
[[gnu::always_inline]] inline void add_gradients(const float* x, const float* dy, std::int64_t rows,
                                                 const backward_constants<Block>& k, channel_sums<Block>& sums) {
  if constexpr (Block == 1) {
    const float mean = k.mean[0], factor = k.gate_factor[0], shift = k.gate_shift[0];
    for (std::int64_t begin = 0; begin < rows; begin += run_values) {
      const std::int64_t end = std::min(begin + run_values, rows);
      float gradient = 0, product = 0;
#pragma omp simd reduction(+ : gradient, product)
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = x[i] - mean, v = dy[i];
        const float g = !Relu || normalised(d, factor, shift) > 0.0F ? v : 0.0F;
        gradient += g;
        product += g * d;
      }
      sums.first[0] += gradient;
      sums.second[0] += product;
    }
  } else {
    const std::int64_t whole = rows / 2 * 2;
    for (std::int64_t r = 0; r < whole; r += run_rows)
      run_of_gradients<Block, 2, Relu>(x + r * Block, dy + r * Block, std::min(whole - r, run_rows), k, sums);
    if (rows != whole) run_of_gradients<Block, 1, Relu>(x + whole * Block, dy + whole * Block, rows - whole, k, sums);
  }
}

// -- results over `rows` rows of one plane
// ------------------------------------------------------------------------------

template <int Block, bool Relu>
[[gnu::always_inline]] inline void normalise(const float* x, std::int64_t rows, const forward_constants<Block>& k,
                                             float* y) {
  // Channels inside, or the rows of a plane: always the one loop that has many iterations side by side.
  const forward_constants<Block> own = k;
  if constexpr (Block == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < rows; ++i) {
      const float value = normalised(x[i] - own.mean[0], own.factor[0], own.shift[0]);
      y[i] = Relu ? relu_of(value) : value;
    }
  } else {
    for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd simdlen(Block)
      for (int c = 0; c < Block; ++c) {
        const float value = normalised(x[r * Block + c] - own.mean[c], own.factor[c], own.shift[c]);
        y[r * Block + c] = Relu ? relu_of(value) : value;
      }
  }
}

/// dx may be dy.
template <int Block, bool Relu>
[[gnu::always_inline]] inline void differentiate(const float* x, const float* dy, std::int64_t rows,
                                                 const backward_constants<Block>& k, float* dx) {
  const backward_constants<Block> own = k;
  const auto of_channel = [&own](float value, float gradient, int c) __attribute__((always_inline)) {
    const float d = value - own.mean[c];
    const float g = !Relu || normalised(d, own.gate_factor[c], own.gate_shift[c]) > 0.0F ? gradient : 0.0F;
    return (g - own.gradient_mean[c]) * own.factor[c] - d * own.slope[c];
  };
  if constexpr (Block == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < rows; ++i)
      dx[i] = of_channel(x[i], dy[i], 0);
  } else {
    for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd simdlen(Block)
      for (int c = 0; c < Block; ++c)
        dx[r * Block + c] = of_channel(x[r * Block + c], dy[r * Block + c], c);
  }
}

} // namespace penstock::norm_loops
