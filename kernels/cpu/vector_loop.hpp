// Element-wise loops for the widest vectors of the machine, over the stream's compute threads.
#pragma once

#include "kernels/vector_width.hpp"

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace penstock {

/// max(x, 0), but NaN stays NaN, as in PyTorch: a run that has gone wrong must be seen to.
[[gnu::always_inline]] inline float relu_of(float x) {
  return x <= 0.0F ? 0.0F : x;
}

/// Calls body(begin, end) on ranges that together cover [0, count), each on one compute thread; small counts stay on
/// the calling thread. Ranges begin at multiples of `grain`.
template <class Body>
void vector_loop(std::int64_t count, std::int64_t grain, std::int64_t serial_below, const Body& body) {
  const int threads = count < serial_below ? 1 : omp_get_max_threads();
  if (threads == 1) return run_vectorized(widest_vectors(), 0, count, body);
  const std::int64_t grains = (count + grain - 1) / grain;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t self = omp_get_thread_num();
    const std::int64_t begin = std::min(grains * self / team * grain, count);
    const std::int64_t end = std::min(grains * (self + 1) / team * grain, count);
    if (begin < end) run_vectorized(widest_vectors(), begin, end, body);
  }
}

/// Over elements of contiguous arrays.
template <class Body>
void element_loop(std::int64_t count, const Body& body) {
  vector_loop(count, 64, 1 << 15, body);
}

} // namespace penstock
