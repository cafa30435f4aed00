// Vectors of as many floats as the machine's registers hold, and the functions of an LSTM's gates on them.
#pragma once

#include "kernels/vector_width.hpp"

#include <bit>
#include <cstdint>

namespace penstock {

/// `vec`: in registers; `mem`: where it may lie unaligned.
template <int Lanes>
struct lanes_of {
  // GCC 12 forgets the attributes of an alias whose arguments are a template's.
  typedef float vec __attribute__((vector_size(Lanes * 4)));                        // NOLINT(modernize-use-using)
  typedef float mem __attribute__((vector_size(Lanes * 4), aligned(4), may_alias)); // NOLINT(modernize-use-using)
  typedef std::int32_t ints __attribute__((vector_size(Lanes * 4)));                // NOLINT(modernize-use-using)
  static_assert(sizeof(vec) == Lanes * 4 && sizeof(mem) == sizeof(vec) && sizeof(ints) == sizeof(vec));
};

#define PENSTOCK_INLINED [[gnu::always_inline]] inline

namespace detail {

// e^x = power (1 + rest) for |x| <= 87. x = n ln 2 + r with |r| <= ln 2 / 2, whose series to r^7 leaves out less than
// 2^-26 of r. NaN stays NaN in `rest`.
template <int Lanes>
struct exponential {
  typename lanes_of<Lanes>::vec power, rest;
};

template <int Lanes>
PENSTOCK_INLINED void exponential_of(const typename lanes_of<Lanes>::vec& x, exponential<Lanes>& e) {
  using vec = typename lanes_of<Lanes>::vec;
  using ints = typename lanes_of<Lanes>::ints;
  constexpr float rounding = 0x1.8p23F; // leaves an integer in the last bits
  const vec shifted = x * 0x1.715476p0F + rounding;
  const vec n = shifted - rounding;
  const vec r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F; // ln 2 in two parts, the first exact times n
  e.rest =
      r +
      r * r * (1.0F / 2 + r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r * (1.0F / 720 + r * (1.0F / 5040))))));
  e.power = (vec)((((ints)shifted) << 23) + 0x3F800000);
}

// Between, and NaN stays NaN.
template <int Lanes>
PENSTOCK_INLINED void clamp_to(typename lanes_of<Lanes>::vec& x, float most) {
  x = x > most ? (typename lanes_of<Lanes>::vec{} + most) : x;
  x = x < -most ? (typename lanes_of<Lanes>::vec{} - most) : x;
}

} // namespace detail

/// e^x, 0 below -87 or so; x is at most 0.
template <int Lanes>
PENSTOCK_INLINED void exponential_in_place(typename lanes_of<Lanes>::vec& x) {
  detail::exponential<Lanes> e;
  detail::clamp_to<Lanes>(x, 87.0F);
  detail::exponential_of<Lanes>(x, e);
  x = e.power + e.power * e.rest;
}

/// 1 / (1 + e^-x), to a few units in the last place.
template <int Lanes>
PENSTOCK_INLINED void sigmoid_in_place(typename lanes_of<Lanes>::vec& x) {
  detail::exponential<Lanes> e;
  x = -x;
  detail::clamp_to<Lanes>(x, 87.0F);
  detail::exponential_of<Lanes>(x, e);
  x = 1.0F / (1.0F + (e.power + e.power * e.rest));
}

/// tanh x = p / (p + 2) with p = e^2x - 1, to a few units in the last place, near 0 too.
template <int Lanes>
PENSTOCK_INLINED void tanh_in_place(typename lanes_of<Lanes>::vec& x) {
  detail::exponential<Lanes> e;
  x = x + x;
  detail::clamp_to<Lanes>(x, 40.0F);
  detail::exponential_of<Lanes>(x, e);
  const typename lanes_of<Lanes>::vec p = e.power * e.rest + (e.power - 1.0F);
  x = p / (p + 2.0F);
}

namespace detail {

// The call is inlined into each of these and so compiled for each instruction set.
#if defined(__x86_64__)
template <class Body>
[[gnu::target("avx2,fma,bmi2")]] void call_avx2(const Body& body) {
  body.template operator()<8>();
}
template <class Body>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,bmi2,prefer-vector-width=512")]] void
call_avx512(const Body& body) {
  body.template operator()<16>();
}
#endif
template <class Body>
void call_baseline(const Body& body) {
  body.template operator()<4>();
}

} // namespace detail

/// Calls body.operator()<Lanes>() compiled for that instruction set: `[&]<int Lanes>() PENSTOCK_VECTORIZED { ... }`.
template <class Body>
void call_with_lanes(vector_width width, const Body& body) {
#if defined(__x86_64__)
  if (width == vector_width::avx512) return detail::call_avx512(body);
  if (width == vector_width::avx2) return detail::call_avx2(body);
#else
  static_cast<void>(width);
#endif
  detail::call_baseline(body);
}

} // namespace penstock
