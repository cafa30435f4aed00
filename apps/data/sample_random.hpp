// The random numbers of one sample: from its key alone, the same on every platform, thread and partition.
#pragma once

#include "actors/labelled_images.hpp"

#include <cstdint>

namespace penstock::apps {

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
class sample_random {
public:
  explicit sample_random(std::uint64_t state) : state_(state) {}

  explicit sample_random(const actors::sample_key& key)
      : state_(mixed(mixed(mixed(key.seed, 0x5EED), static_cast<std::uint64_t>(key.epoch)),
                     static_cast<std::uint64_t>(key.index))) {}

  std::uint64_t next() { return mixed(state_ += 0x9E3779B97F4A7C15U, 0); }

  /// In [0, bound), bound > 0. For the small bounds of crops the remainder's bias is below 2^-40.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }

  /// Approximately normal with mean 0 and deviation 1: the sum of four uniform 16-bit numbers, without a library's log
  /// and cosine, whose last bits differ between platforms.
  float normal() {
    const std::uint64_t bits = next();
    const auto sum =
        static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48));
    return static_cast<float>(sum - 2 * 65535) * (1.7320508F / 65536.0F);
  }

  /// A well mixed number of two.
  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    std::uint64_t z = a ^ (b * 0xD6E8FEB86659FD93U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

private:
  std::uint64_t state_;
};

} // namespace penstock::apps
