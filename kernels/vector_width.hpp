// Loops compiled once for each instruction set of this architecture, of which the machine's widest is run.
#pragma once

#include <cstdint>

namespace penstock {

/// Instruction sets that a vectorised loop is compiled for; other architectures know the baseline alone.
enum class vector_width : std::uint8_t { baseline, avx2, avx512 };

/// The widest that this machine has.
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

/// Marks the body of a loop below: `[=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED { for ... }`.
#define PENSTOCK_VECTORIZED __attribute__((always_inline))

namespace detail {

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

} // namespace detail

/// Calls body(begin, end), compiled for that instruction set, which the machine must have.
template <class Body>
void run_vectorized(vector_width width, std::int64_t begin, std::int64_t end, const Body& body) {
#if defined(__x86_64__)
  if (width == vector_width::avx512) return detail::run_range_avx512(begin, end, body);
  if (width == vector_width::avx2) return detail::run_range_avx2(begin, end, body);
#else
  static_cast<void>(width);
#endif
  detail::run_range(begin, end, body);
}

} // namespace penstock
