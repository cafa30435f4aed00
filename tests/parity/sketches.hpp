// What the fixtures of whole networks hold of a tensor, and how far another one is from it. make_fixtures.py explains.
#pragma once

#include "kernels/segment.hpp"
#include "kernels/tensor.hpp"
#include "tests/kernels/scalars.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::parity {

inline constexpr std::uint64_t seed = 20;
inline constexpr std::size_t sketches = 32;
// The sketch estimates the squared error with a relative deviation of sqrt(2 / 32); three of them allow a factor
// of 1.3.
inline constexpr double sketch_slack = 1.3;

/// splitmix64's word for an element of the stream (seed, name), as in kernels/initialise.hpp; written again here so
/// that the fixtures check that page, not the code with itself.
class word_stream {
public:
  explicit word_stream(std::string_view name) : key_(mix(mix(seed + gamma) ^ name_hash(name))) {}
  std::uint64_t operator[](std::int64_t k) const { return mix(key_ + (static_cast<std::uint64_t>(k) + 1) * gamma); }

private:
  static constexpr std::uint64_t gamma = 0x9E3779B97F4A7C15U;
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  std::uint64_t key_;
};

/// What a fixture says of one tensor.
struct expectation {
  double norm;
  double own_error; // of PyTorch float32, relative
  std::vector<float> sketch;
};

inline expectation read_expectation(const tensor& stored) {
  const auto* p = stored.data<float>();
  return {p[0], p[1], std::vector<float>(p + 2, p + 2 + sketches)};
}

/// Squared L2 norm of (found - reference), estimated from the sketches.
inline double squared_difference(const std::string& name, const tensor& found, const expectation& wanted) {
  const word_stream words(name);
  std::vector<double> sums(sketches);
  const auto* values = found.data<float>();
  for (std::int64_t i = 0; i < found.elements(); ++i) {
    const auto bits = words[i];
    for (std::size_t k = 0; k < sketches; ++k)
      sums[k] += ((bits >> k) & 1U) != 0 ? values[i] : -values[i];
  }
  double squares = 0;
  for (std::size_t k = 0; k < sketches; ++k)
    squares += std::pow(sums[k] - wanted.sketch[k], 2);
  return squares / static_cast<double>(sketches);
}

} // namespace penstock::parity
