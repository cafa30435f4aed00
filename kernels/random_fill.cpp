// The definition's plain loop for normals is short and slow. Beside it stands one that vectorises and knows how far it
// may be from the plain one: where everything within that distance rounds to the same float, the float is the plain
// loop's.
#include "kernels/random_fill.hpp"

#include "kernels/segment.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace penstock {

namespace {

/// Exact for n < 2^52. In words that any instruction set has, where a conversion would be one by one.
[[gnu::always_inline]] inline double to_double(std::uint64_t n) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(0x1p52) | n) - 0x1p52;
}

[[gnu::always_inline]] inline double first_uniform(std::uint64_t word) {
  return (to_double(word >> 32) + 0.5) * 0x1p-32;
}

[[gnu::always_inline]] inline double second_uniform(std::uint64_t word) {
  return (to_double(word & 0xFFFFFFFFU) + 0.5) * 0x1p-32;
}

/// c0 + z (c1 + z (c2 + ...)).
[[gnu::always_inline]] inline double polynomial(double, double last) {
  return last;
}
template <class... Rest>
[[gnu::always_inline]] inline double polynomial(double z, double first, Rest... rest) {
  return first + z * polynomial(z, rest...);
}

/// a, or b where the mask is all ones. In words, since a choice between doubles is not vectorised everywhere.
[[gnu::always_inline]] inline double chosen(std::uint64_t mask, double a, double b) {
  const auto of_a = std::bit_cast<std::uint64_t>(a), of_b = std::bit_cast<std::uint64_t>(b);
  return std::bit_cast<double>(of_a ^ ((of_a ^ of_b) & mask));
}

/// x, or -x where `bit` has the bit of value 2.
[[gnu::always_inline]] inline double with_sign(double x, std::uint64_t bit) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) ^ (bit & 2) << 62);
}

[[gnu::noinline]] void fill_normal_plainly(float* out, std::int64_t begin, std::int64_t end, const random_words& words,
                                           double deviation) {
  for (std::int64_t i = begin; i < end; i += 2) {
    const auto word = words[i / 2];
    const double radius = deviation * std::sqrt(-2 * std::log(first_uniform(word)));
    const double angle = 2 * std::numbers::pi * second_uniform(word);
    out[i - begin] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < end) out[i - begin + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

/// ln x for x in [2^-33, 1), with a relative error below 2^-49. With x = 2^e m, m in [sqrt(1/2), sqrt(2)), and s =
/// (m - 1) / (m + 1): ln x = e ln 2 + 2 artanh s, by the series of artanh; z = s^2 < 0.0295, so that the first term
/// left out is less than 2^-55 of the sum. The two summands cancel to no less than a half of the greater.
[[gnu::always_inline]] inline double close_log(double x) {
  constexpr std::uint64_t exponents = 64; // added to e, so that it is not negative
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t raised = (bits + (exponents << 52) - std::bit_cast<std::uint64_t>(std::numbers::sqrt2 / 2)) >> 52;
  const double m = std::bit_cast<double>(bits + ((exponents - raised) << 52));
  const double s = (m - 1) / (m + 1), z = s * s;
  const double series =
      polynomial(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21);
  return (to_double(raised) - exponents) * std::numbers::ln2 + (s + s) + s * (z * series);
}

/// Of one word: r cos t and r sin t, each with a relative error below 2^-48 against the definition in real numbers but
/// for t, which is rounded as there.
struct close_pair {
  double cosine;
  double sine;
};

[[gnu::always_inline]] inline close_pair close_normals(std::uint64_t word, double deviation) {
  const double u = second_uniform(word);
  const double angle = 2 * std::numbers::pi * u;
  // t = q pi / 2 + rest with |rest| <= pi / 4. pi / 2 is taken in two parts: the first has 33 bits, so that q times it
  // and the difference are exact; t is no nearer than 2^-31 to a multiple of pi / 2, so the second one's error is
  // nothing.
  const double rounding = 0x1.8p52; // leaves an integer in the last bits
  const double shifted = 4 * u + rounding;
  const double quarters = shifted - rounding;
  const double rest = (angle - quarters * 0x1.921fb544p0) - quarters * 0x1.0b4611a626331p-34;
  const double z = rest * rest;
  // Taylor's series to rest^16 and rest^17: what is left out is less than 2^-56 of the sums.
  const double cosine = polynomial(z, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                   -1.0 / 87178291200, 1.0 / 20922789888000);
  const double sine = rest + rest * (z * polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                                    1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000));

  const auto q = std::bit_cast<std::uint64_t>(shifted);
  const std::uint64_t swaps = -(q & 1);
  const double radius = deviation * std::sqrt(-2 * close_log(first_uniform(word)));
  return {with_sign(radius * chosen(swaps, cosine, sine), q + 1), with_sign(radius * chosen(swaps, sine, cosine), q)};
}

// Many times the errors above and the C library's, a few 2^-53, together.
constexpr double doubt = 0x1p-42;

/// 0 where all that may be meant by x rounds to `rounded`.
[[gnu::always_inline]] inline std::uint32_t differs(double x, float rounded) {
  const auto bits = std::bit_cast<std::uint32_t>(rounded);
  return (std::bit_cast<std::uint32_t>(static_cast<float>(x * (1 - doubt))) ^ bits) |
         (std::bit_cast<std::uint32_t>(static_cast<float>(x * (1 + doubt))) ^ bits);
}

constexpr std::int64_t retry_stride = std::int64_t{1} << 40; // more elements than a parameter has

constexpr std::int64_t block_words = 128; // done plainly when one of its values is in doubt

} // namespace

random_words::random_words(std::uint64_t seed, std::string_view name)
    : key_(mix(mix(seed + gamma) ^ name_hash(name))) {}

void fill_uniform(float* out, std::int64_t begin, std::int64_t end, const random_words& words, double range,
                  vector_width width) {
  run_vectorized(width, begin, end, [=](std::int64_t from, std::int64_t to) PENSTOCK_VECTORIZED {
    for (std::int64_t i = from; i < to; ++i) {
      const std::uint64_t word = words[i];
      // The upper 53 bits, by way of 32 and 21, which is exact.
      const double integer = to_double(word >> 32) * 0x1p21 + to_double((word >> 11) & 0x1FFFFFU);
      const double u = (integer + 0.5) * 0x1p-53;
      out[i - begin] = static_cast<float>(range * (2 * u - 1));
    }
  });
}

void fill_normal(float* out, std::int64_t begin, std::int64_t end, const random_words& words, double deviation,
                 vector_width width) {
  if (!std::isfinite(deviation)) return fill_normal_plainly(out, begin, end, words, deviation);
  const std::int64_t whole = end / 2; // words of which both values are wanted
  run_vectorized(width, begin / 2, whole, [=](std::int64_t from, std::int64_t to) PENSTOCK_VECTORIZED {
    for (std::int64_t first = from; first < to; first += block_words) {
      const std::int64_t last = std::min(first + block_words, to);
      std::uint32_t doubtful = 0;
      for (std::int64_t k = first; k < last; ++k) {
        const close_pair close = close_normals(words[k], deviation);
        const auto cosine = static_cast<float>(close.cosine), sine = static_cast<float>(close.sine);
        out[2 * k - begin] = cosine;
        out[2 * k + 1 - begin] = sine;
        doubtful |= differs(close.cosine, cosine) | differs(close.sine, sine);
      }
      if (doubtful != 0) fill_normal_plainly(out + (2 * first - begin), 2 * first, 2 * last, words, deviation);
    }
  });
  fill_normal_plainly(out + (2 * whole - begin), 2 * whole, end, words, deviation);
}

void fill_truncated_normal(float* out, std::int64_t begin, std::int64_t end, const random_words& words,
                           double deviation, double cut, vector_width width) {
  fill_normal(out, begin, end, words, deviation, width);
  const auto limit = static_cast<float>(cut);
  for (std::int64_t i = begin; i < end; ++i)
    // Written so that a NaN, which no other word would mend, is left.
    for (std::int64_t word = i + retry_stride; std::abs(out[i - begin]) > limit; word += retry_stride) {
      const double radius = deviation * std::sqrt(-2 * std::log(first_uniform(words[word])));
      out[i - begin] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * second_uniform(words[word])));
    }
}

} // namespace penstock
