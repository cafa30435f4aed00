// Which elements dropout keeps: one rule that every backend shares, so that masks agree bit for bit.
#pragma once

#include "kernels/random_key.hpp"

#include <cstdint>

namespace penstock {

/// The random numbers of one dropout call. Element i (counted in plain row-major order) depends on the key and i alone:
/// a counter-based generator of two multiply-xorshift rounds on 32 bits, which vectorizes well.
class dropout_random {
public:
  /// `p`: probability that an element is dropped, in [0, 1].
  dropout_random(const random_key& key, float p)
      : threshold_(p >= 1.0F ? std::uint64_t{1} << 32 : static_cast<std::uint64_t>(static_cast<double>(p) * 0x1p32)),
        scale_(p >= 1.0F ? 0.0F : 1.0F / (1.0F - p)) {
    std::uint64_t state = mix64(key.seed);
    state = mix64(state ^ key.layer);
    state = mix64(state ^ static_cast<std::uint64_t>(key.minibatch));
    state = mix64(state ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.microbatch)));
    first_ = static_cast<std::uint32_t>(state);
    second_ = static_cast<std::uint32_t>(state >> 32);
  }

  bool keeps(std::uint64_t element) const {
    const auto low = static_cast<std::uint32_t>(element);
    const auto high = static_cast<std::uint32_t>(element >> 32);
    return mix32(mix32(low ^ first_) + (second_ ^ (high * 0x9E3779B9U))) >= threshold_;
  }

  /// What elements first, first + 1, ... are multiplied by, into `out`: for loops that are vectorised.
  [[gnu::always_inline]] void multipliers(std::uint64_t first, std::int64_t count, float* out) const {
    const float kept = scale_;
    const auto threshold = static_cast<std::uint32_t>(threshold_);
    const bool none = threshold_ > 0xFFFFFFFFU;
    while (count > 0) { // as far as the upper halves are equal
      const auto low = static_cast<std::uint32_t>(first), high = static_cast<std::uint32_t>(first >> 32);
      const auto left = static_cast<std::int64_t>(std::uint64_t{0x100000000U} - low);
      const std::int64_t run = count < left ? count : left;
      const std::uint32_t upper = second_ ^ (high * 0x9E3779B9U), mask = first_;
      for (std::int64_t i = 0; i < run; ++i) {
        const auto hash = mix32(mix32((low + static_cast<std::uint32_t>(i)) ^ mask) + upper);
        out[i] = hash >= threshold && !none ? kept : 0.0F;
      }
      first += static_cast<std::uint64_t>(run), count -= run, out += run;
    }
  }

  /// out[i] = in[i] times the scale where element first + i is kept, else 0, whatever in[i] is; `out` may be `in`. For
  /// loops that are vectorised.
  [[gnu::always_inline]] void apply(std::uint64_t first, std::int64_t count, const float* in, float* out) const {
    constexpr std::int64_t most = 256;
    float factors[most];
    for (std::int64_t begin = 0; begin < count; begin += most) {
      const std::int64_t length = count - begin < most ? count - begin : most;
      multipliers(first + static_cast<std::uint64_t>(begin), length, factors);
      for (std::int64_t i = 0; i < length; ++i) {
        const float value = in[begin + i] * factors[i];
        out[begin + i] = factors[i] != 0.0F ? value : 0.0F;
      }
    }
  }

  /// What kept elements are multiplied by: 1 / (1 - p), or 0 when p is 1.
  float scale() const { return scale_; }

private:
  // The finalizers of splitmix64 and of a 32-bit hash with low bias (multiply and xorshift).
  static constexpr std::uint64_t mix64(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  static constexpr std::uint32_t mix32(std::uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    return x ^ (x >> 16);
  }

  std::uint64_t threshold_; // of 2^32
  float scale_;
  std::uint32_t first_ = 0;
  std::uint32_t second_ = 0;
};

/// True when dropout with this key keeps the element. For loops, make one `dropout_random` and ask it.
inline bool dropout_keeps(const random_key& key, std::uint64_t element, float p) {
  return dropout_random(key, p).keeps(element);
}

} // namespace penstock
