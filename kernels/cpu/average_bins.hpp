// Which rows and columns of an image each output of an average pooling covers.
#pragma once

#include "kernels/ops/convolution_ops.hpp"

#include <vector>

namespace penstock {

/// Rows or columns [begin, end) and what the average divides by along this axis.
struct average_bin {
  std::int64_t begin, end, divisor;
};

struct average_bins {
  std::vector<average_bin> rows, columns; // one per output row and column
};

/// Windows of an average pooling of x (N, C, H, W): PyTorch's, which in ceil mode divides by the part of a window that
/// lies within the padded image.
average_bins window_bins(const pool2d_args& args, const shape& x);

/// PyTorch's adaptive bins: floor(i * H / OH) to ceil((i + 1) * H / OH).
average_bins adaptive_bins(const shape& x, std::array<std::int64_t, 2> output);

} // namespace penstock
