// Element-wise loops for the widest vectors of the machine, over the stream's compute threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace penstock {

namespace detail {

enum class vector_width : std::uint8_t { baseline, avx2, avx512 };

inline vector_width widest_vectors() {
#if defined(__x86_64__)
  static const vector_width width = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
                                        ? vector_width::avx512
                                    : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                        ? vector_width::avx2
                                        : vector_width::baseline;
  return width;
#else
  return vector_width::baseline;
#endif
}

// The body is inlined into each of these and so compiled for each instruction set.
template <class Body>
void run_range(std::int64_t begin, std::int64_t end, const Body& body) {
  body(begin, end);
}
#if defined(__x86_64__)
template <class Body>
[[gnu::target("avx2,fma,bmi2")]] void run_range_avx2(std::int64_t begin, std::int64_t end, const Body& body) {
  body(begin, end);
}
template <class Body>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,bmi2,prefer-vector-width=512")]] void
run_range_avx512(std::int64_t begin, std::int64_t end, const Body& body) {
  body(begin, end);
}
#endif

template <class Body>
void run_range_widest(std::int64_t begin, std::int64_t end, const Body& body) {
#if defined(__x86_64__)
  if (widest_vectors() == vector_width::avx512) return run_range_avx512(begin, end, body);
  if (widest_vectors() == vector_width::avx2) return run_range_avx2(begin, end, body);
#endif
  run_range(begin, end, body);
}

} // namespace detail

/// max(x, 0), but NaN stays NaN, as in PyTorch: a run that has gone wrong must be seen to.
[[gnu::always_inline]] inline float relu_of(float x) {
  return x <= 0.0F ? 0.0F : x;
}

/// Marks the body of a loop below: `[=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED { for ... }`.
#define PENSTOCK_VECTORIZED __attribute__((always_inline))

/// Calls body(begin, end) on ranges that together cover [0, count), each on one compute thread; small counts stay on
/// the calling thread. Ranges begin at multiples of `grain`.
template <class Body>
void vector_loop(std::int64_t count, std::int64_t grain, std::int64_t serial_below, const Body& body) {
  const int threads = count < serial_below ? 1 : omp_get_max_threads();
  if (threads == 1) return detail::run_range_widest(0, count, body);
  const std::int64_t grains = (count + grain - 1) / grain;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t self = omp_get_thread_num();
    const std::int64_t begin = std::min(grains * self / team * grain, count);
    const std::int64_t end = std::min(grains * (self + 1) / team * grain, count);
    if (begin < end) detail::run_range_widest(begin, end, body);
  }
}

/// Over elements of contiguous arrays.
template <class Body>
void element_loop(std::int64_t count, const Body& body) {
  vector_loop(count, 64, 1 << 15, body);
}

} // namespace penstock
