// The machine's measured peak: fused multiply-adds of f32 in registers, on each of a number of threads, by the second
// of processor time of each, so that what others do on the machine hardly shows.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <omp.h>

namespace {

typedef float vector16 __attribute__((vector_size(64)));
typedef float vector8 __attribute__((vector_size(32)));

// Sixteen independent chains hide the latency of an FMA.
template <class Vector>
[[gnu::always_inline]] inline float multiply_add(long rounds) {
  Vector sums[16];
  for (int i = 0; i < 16; ++i)
    sums[i] = Vector{} + (1.0F + static_cast<float>(i));
  const Vector factor = Vector{} + 0.9999F, addend = Vector{} + 1e-4F;
  for (long r = 0; r < rounds; ++r)
    for (int i = 0; i < 16; ++i)
      sums[i] = sums[i] * factor + addend;
  float total = 0;
  for (int i = 0; i < 16; ++i)
    total += sums[i][0];
  return total;
}

[[gnu::target("avx512f")]] float run_avx512(long rounds) {
  return multiply_add<vector16>(rounds);
}
[[gnu::target("avx2,fma")]] float run_avx2(long rounds) {
  return multiply_add<vector8>(rounds);
}

} // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
    std::fprintf(stderr, "bench_peak: needs AVX2 and FMA\n");
    return 1;
  }
  constexpr long rounds = 20'000'000;
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::clock_t start = std::clock();
    float sink = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    sink += wide ? run_avx512(rounds) : run_avx2(rounds);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / threads;
    const double flops = 2.0 * 16 * (wide ? 16 : 8) * static_cast<double>(rounds) * threads / seconds;
    if (sink == sink && flops > best) best = flops;
  }
  std::printf("{\"threads\": %d, \"gflops\": %.1f}\n", threads, best / 1e9);
}
