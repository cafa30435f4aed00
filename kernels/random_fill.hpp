// Random values by their place in a parameter, many at once: the loops behind initialise().
#pragma once

#include "kernels/vector_width.hpp"

#include <cstdint>
#include <string_view>

namespace penstock {

/// The random words of one parameter: splitmix64 (Steele, Lea and Flood, 2014) read at any place.
class random_words {
public:
  random_words(std::uint64_t seed, std::string_view name);

  [[gnu::always_inline]] std::uint64_t operator[](std::int64_t k) const {
    return mix(key_ + (static_cast<std::uint64_t>(k) + 1) * gamma);
  }

private:
  static constexpr std::uint64_t gamma = 0x9E3779B97F4A7C15U;

  [[gnu::always_inline]] static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  std::uint64_t key_;
};

/// Elements [begin, end) of a parameter, as initialise() defines them, to `out` and on. The same bits for any width
/// that the machine has.
void fill_uniform(float* out, std::int64_t begin, std::int64_t end, const random_words& words, double range,
                  vector_width width = widest_vectors());

/// The same of normals; `begin` is even, so that the two of a word stay together. Logarithm, sine and cosine are
/// computed a vector at a time and to a known accuracy, and what that leaves in doubt, a value in a few hundred
/// thousand, by the C library, whose results these are to the last bit.
void fill_normal(float* out, std::int64_t begin, std::int64_t end, const random_words& words, double deviation,
                 vector_width width = widest_vectors());

/// As fill_normal; elements further than `cut` from 0 are drawn again from words of their own.
void fill_truncated_normal(float* out, std::int64_t begin, std::int64_t end, const random_words& words,
                           double deviation, double cut, vector_width width = widest_vectors());

} // namespace penstock
