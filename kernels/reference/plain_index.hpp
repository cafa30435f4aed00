// Indexing of plain rank-4 tensors, and the one statement of what ReLU is, for the reference loops.
#pragma once

#include "kernels/shape.hpp"

namespace penstock {

/// Extents of a (N, C, H, W) tensor and the place of an element in it.
struct extents4 {
  std::int64_t n, c, h, w;

  explicit extents4(const shape& dims) : n(dims.at(0)), c(dims.at(1)), h(dims.at(2)), w(dims.at(3)) {}
  std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
    return ((in * c + ic) * h + ih) * w + iw;
  }
};

/// max(x, 0), but NaN stays NaN: a run that has gone wrong must be seen to.
inline float relu_of(float x) {
  return x <= 0 ? 0.0F : x;
}

} // namespace penstock
