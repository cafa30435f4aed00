// Sixteen floats at once, and what rows of floats add up to: in the same order on every instruction set.
#pragma once

#include <cstdint>
#include <cstring>

namespace penstock {

/// A register where the machine has them so wide, else several; for bodies that run_vectorized runs. The compiler
/// makes no such sums of a plain loop, since it may not reorder them.
using lanes = float __attribute__((vector_size(64)));
inline constexpr std::int64_t lane_count = 16;

[[gnu::always_inline]] inline void load(lanes& v, const float* from) {
  std::memcpy(&v, from, sizeof v);
}
[[gnu::always_inline]] inline void store(float* to, const lanes& v) {
  std::memcpy(to, &v, sizeof v);
}

/// Halves are added until one is left.
[[gnu::always_inline]] inline float sum_of(const lanes& v) {
  float parts[lane_count];
  store(parts, v);
  for (std::int64_t half = lane_count / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i)
      parts[i] += parts[i + half];
  return parts[0];
}

/// The sum of a row.
[[gnu::always_inline]] inline float sum_of(const float* x, std::int64_t count) {
  lanes first{}, second{}, a, b;
  std::int64_t i = 0;
  for (; i + 2 * lane_count <= count; i += 2 * lane_count) {
    load(a, x + i), load(b, x + i + lane_count);
    first += a, second += b;
  }
  float rest = 0;
  for (; i < count; ++i)
    rest += x[i];
  first += second;
  return sum_of(first) + rest;
}

/// The sum of the products of two rows.
[[gnu::always_inline]] inline float dot_of(const float* x, const float* y, std::int64_t count) {
  lanes first{}, second{}, a, b, c, d;
  std::int64_t i = 0;
  for (; i + 2 * lane_count <= count; i += 2 * lane_count) {
    load(a, x + i), load(b, y + i), load(c, x + i + lane_count), load(d, y + i + lane_count);
    first += a * b, second += c * d;
  }
  float rest = 0;
  for (; i < count; ++i)
    rest += x[i] * y[i];
  first += second;
  return sum_of(first) + rest;
}

/// The greatest of a row that is not empty; NaN is passed over.
[[gnu::always_inline]] inline float greatest_of(const float* x, std::int64_t count) {
  float greatest = x[0];
  std::int64_t i = 0;
  if (count >= lane_count) {
    lanes most, v;
    load(most, x);
    for (i = lane_count; i + lane_count <= count; i += lane_count) {
      load(v, x + i);
      most = v > most ? v : most;
    }
    float parts[lane_count];
    store(parts, most);
    greatest = parts[0];
    for (const float part : parts)
      greatest = part > greatest ? part : greatest;
  }
  for (; i < count; ++i)
    greatest = x[i] > greatest ? x[i] : greatest;
  return greatest;
}

} // namespace penstock
