// The family of moves: images to sequences, axes swapped, parts taken out and put back.
#pragma once

#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

/// Tensors are plain but for images, and of any type but for those.
class arrangement_ops {
public:
  static constexpr std::string_view family = "moves of elements";
  virtual ~arrangement_ops() = default;

  /// (B, C, H, W) in the activation format -> (B, H W, C).
  virtual tensor to_sequence(const tensor& images) = 0;
  /// And back, into images of that shape in the activation format.
  virtual tensor to_images(const tensor& sequence, const shape& images) = 0;

  /// The two axes swapped.
  virtual tensor transpose(const tensor& x, std::size_t one, std::size_t other) = 0;
  /// [begin, end) of that axis.
  virtual tensor slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) = 0;
  /// A tensor of that shape, zero but for `part`, which stands at [begin, ...) of that axis.
  virtual tensor widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) = 0;
};

} // namespace penstock
