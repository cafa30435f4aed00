// Elementary functions without branches or calls, for loops that the compiler vectorises. NaN stays NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace penstock {

/// exp(x), within 2 units in the last place; 0 below -87.3, about 2e38 above 88.3. The range is reduced by multiples
/// of ln 2 in two parts, the rest is a polynomial of degree 7 (Cephes' expf).
[[gnu::always_inline]] inline float exp_of(float x) {
  const float low = -87.3365F, high = 88.3F, rounder = 12582912.0F; // 3 * 2^22: adding it rounds to whole numbers
  const float bounded = x < low ? low : x > high ? high : x;
  const float shifted = bounded * 1.44269504088896341F + rounder;
  const float n = shifted - rounder;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto scale =
      std::bit_cast<float>((std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(rounder) + 127) << 23);
  return x < low ? 0.0F : p * scale;
}

/// 1 / (1 + exp(-x))
[[gnu::always_inline]] inline float sigmoid_of(float x) {
  return 1.0F / (1.0F + exp_of(-x));
}

/// tanh(x): a polynomial near 0 (Cephes' tanhf), 1 - 2 / (exp 2x + 1) elsewhere.
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float size = std::fabs(x), z = x * x;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const float near = p * z * x + x;
  const float far = std::copysign(1.0F - 2.0F / (exp_of(2.0F * size) + 1.0F), x);
  return size < 0.625F ? near : far;
}

/// Of the normal distribution at x: the share below, and the density. The error function is Abramowitz and Stegun's
/// 7.1.26, within 1.5e-7.
struct normal_values {
  float below;
  float density;
};
[[gnu::always_inline]] inline normal_values normal_at(float x) {
  const float bell = exp_of(-0.5F * x * x); // exp(-z^2) at z = |x| / sqrt 2
  const float t = 1.0F / (1.0F + 0.3275911F * 0.70710678118654752F * std::fabs(x));
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float tail = 0.5F * p * t * bell; // the share beyond |x|
  return {x < 0.0F ? tail : 1.0F - tail, 0.39894228040143268F * bell};
}

} // namespace penstock
