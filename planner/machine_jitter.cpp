// A hash of the action's identity in place of a generator's state.
#include "planner/machine_jitter.hpp"

#include <cmath>
#include <numbers>

namespace penstock::planner {

namespace {

/// The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// In (0, 1): the upper 53 bits, half a step off zero.
double unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53;
}

} // namespace

double jitter_of(const machine_options& options, int stage, int replica, const action& a) {
  auto state = mix(options.seed);
  for (const auto part :
       {static_cast<std::uint64_t>(stage), static_cast<std::uint64_t>(replica), static_cast<std::uint64_t>(a.kind),
        static_cast<std::uint64_t>(a.minibatch), static_cast<std::uint64_t>(a.microbatch)})
    state = mix(state ^ part);
  const auto variance = std::log1p(options.jitter * options.jitter); // of the logarithm
  const auto radius = std::sqrt(-2 * std::log(unit(state)));
  const auto normal = radius * std::cos(2 * std::numbers::pi * unit(mix(state))); // Box and Muller, 1958
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

} // namespace penstock::planner
