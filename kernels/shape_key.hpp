// Under what a device's library keeps the primitives it made: the extents and arguments that they depend on.
#pragma once

#include "kernels/bounded_cache.hpp"
#include "kernels/shape.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace penstock {

/// A short list of numbers. shape_key::of(x.dims(), args.stride, args.groups, has_bias)
class shape_key {
public:
  template <class... Parts>
  static shape_key of(const Parts&... parts) {
    shape_key key;
    (key.push(parts), ...);
    return key;
  }
  bool operator==(const shape_key& other) const {
    return used_ == other.used_ && std::equal(values_.begin(), values_.begin() + used_, other.values_.begin());
  }

  struct hash {
    std::size_t operator()(const shape_key& key) const {
      std::uint64_t mixed = key.used_;
      for (std::size_t i = 0; i < key.used_; ++i) {
        mixed = (mixed ^ static_cast<std::uint64_t>(key.values_[i])) * 0x9E3779B97F4A7C15U;
        mixed ^= mixed >> 32;
      }
      return mixed;
    }
  };

private:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void push(Number value) { values_.at(used_++) = static_cast<std::int64_t>(value); }
  void push(const shape& dims) {
    for (const auto d : dims)
      push(d);
  }
  void push(const std::array<std::int64_t, 2>& pair) { push(pair[0]), push(pair[1]); }

  std::array<std::int64_t, 24> values_{};
  std::size_t used_ = 0;
};

/// How many primitives of one operation a stream keeps. A run has a few sizes of micro-batch (two in training, the last
/// one of an epoch, one of evaluation), so a stage of over a hundred layers stays below it and makes nothing twice;
/// only sizes that change all the time (sequences) go beyond, and those must not fill the memory: with oneDNN 2.6.3 a
/// primitive and its generated code took 11 KB (linear) to 39 KB (convolution), so 512 are 20 MB at most.
inline constexpr std::size_t primitives_kept = 512;

template <class Entry>
class shape_cache : public bounded_cache<shape_key, Entry, shape_key::hash> {
public:
  shape_cache() : bounded_cache<shape_key, Entry, shape_key::hash>(primitives_kept) {}
};

} // namespace penstock
