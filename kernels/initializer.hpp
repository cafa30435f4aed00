// How a parameter starts, and the bounds that papers and libraries give for it.
#pragma once

#include <cmath>
#include <cstdint>

namespace penstock {

enum class initializer_kind : std::uint8_t { constant, uniform, normal, truncated_normal };

/// How a parameter starts: `value` for constant, [-value, value] for uniform, N(0, value^2) for normal, the same given
/// that it lies in [-cut, cut] for truncated_normal. Elements [zeros_begin, zeros_end) of it, row-major, are 0 then.
struct initializer {
  initializer_kind kind = initializer_kind::constant;
  float value = 0;
  float cut = 0; ///< truncated_normal: of the value itself, as PyTorch's a and b; not in deviations
  std::int64_t zeros_begin = 0;
  std::int64_t zeros_end = 0;
};

/// torch.nn.init.trunc_normal_(std=deviation, a=-cut, b=cut). TensorFlow's truncated_normal cuts at two deviations:
/// truncated_normal(deviation, 2 * deviation). The cut is at least an eighth of the deviation.
constexpr initializer truncated_normal(float deviation, float cut = 2) {
  return {initializer_kind::truncated_normal, deviation, cut};
}

/// torch.nn.init.xavier_uniform_ (Glorot and Bengio, 2010): +-gain sqrt(6 / (in + out)). Of a convolution both fans are
/// times its window.
inline initializer xavier_uniform(std::int64_t fan_in, std::int64_t fan_out, double gain = 1) {
  return {initializer_kind::uniform, static_cast<float>(gain * std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)))};
}

/// torch.nn.init.xavier_normal_: a deviation of gain sqrt(2 / (in + out)).
inline initializer xavier_normal(std::int64_t fan_in, std::int64_t fan_out, double gain = 1) {
  return {initializer_kind::normal, static_cast<float>(gain * std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)))};
}

/// The same with one row of zeros: the padding row of a table whose rows have that many elements.
constexpr initializer with_zero_row(initializer init, std::int64_t row, std::int64_t row_elements) {
  init.zeros_begin = row * row_elements;
  init.zeros_end = init.zeros_begin + row_elements;
  return init;
}

} // namespace penstock
