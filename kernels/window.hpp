// How many places a sliding window has: the one formula that layers and backends share.
#pragma once

#include <cstdint>

namespace penstock {

/// Extent that a kernel covers when its taps are `dilation` apart.
constexpr std::int64_t dilated_extent(std::int64_t kernel, std::int64_t dilation) {
  return dilation * (kernel - 1) + 1;
}

/// Output extent of a convolution, or of pooling that rounds down; less than 1 when the window does not fit.
constexpr std::int64_t window_count(std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                    std::int64_t dilation = 1) {
  const std::int64_t room = input + 2 * padding - dilated_extent(kernel, dilation);
  return room < 0 ? 0 : room / stride + 1;
}

/// Output extent of pooling. Rounding up (`ceil_mode`) adds a last partial window, but, as PyTorch, never one that
/// would start in the padding behind the input.
constexpr std::int64_t pool_window_count(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                                         std::int64_t padding, bool ceil_mode) {
  const std::int64_t down = window_count(input, kernel, stride, padding);
  if (!ceil_mode) return down;
  const std::int64_t room = input + 2 * padding - kernel;
  if (room < 0) return 0;
  const std::int64_t up = (room + stride - 1) / stride + 1;
  return (up - 1) * stride >= input + padding ? up - 1 : up;
}

} // namespace penstock
