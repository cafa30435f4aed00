// Max, average and adaptive average pooling, with PyTorch's rules for partial windows and padding.
#include "kernels/check.hpp"
#include "kernels/reference/plain_index.hpp"
#include "kernels/reference/reference_convolution.hpp"
#include "kernels/window.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

// Rows or columns [begin, end) of the input that one output averages or compares, and what an average divides by.
struct window {
  std::int64_t begin, end, divisor;
};

window pool_window(const pool2d_args& args, std::size_t axis, std::int64_t place, std::int64_t input) {
  const std::int64_t begin = place * args.stride[axis] - args.padding[axis];
  const std::int64_t end = std::min(begin + args.kernel[axis], input + args.padding[axis]);
  const std::int64_t first = std::max<std::int64_t>(begin, 0);
  const std::int64_t last = std::min(end, input);
  return {first, last, args.count_include_pad ? end - begin : last - first};
}

window adaptive_window(std::int64_t place, std::int64_t output, std::int64_t input) {
  const std::int64_t begin = place * input / output;
  const std::int64_t end = ((place + 1) * input + output - 1) / output;
  return {begin, end, end - begin};
}

// Calls visit(output element, its plane of the input, rows, columns) for every output.
template <class WindowOf, class Visit>
void for_each_window(const extents4& x, const extents4& y, WindowOf window_of, Visit visit) {
  for (std::int64_t n = 0; n < y.n; ++n)
    for (std::int64_t c = 0; c < y.c; ++c)
      for (std::int64_t h = 0; h < y.h; ++h)
        for (std::int64_t w = 0; w < y.w; ++w)
          visit(y.at(n, c, h, w), x.at(n, c, 0, 0), window_of(0, h), window_of(1, w));
}

template <class WindowOf>
void average_windows(const tensor& x, tensor& y, WindowOf window_of) {
  const extents4 xe(x.dims());
  for_each_window(xe, extents4(y.dims()), window_of, [&](auto out, auto plane, window rows, window columns) {
    double sum = 0;
    for (std::int64_t h = rows.begin; h < rows.end; ++h)
      for (std::int64_t w = columns.begin; w < columns.end; ++w)
        sum += x.data<float>()[plane + h * xe.w + w];
    y.data<float>()[out] = static_cast<float>(sum / static_cast<double>(rows.divisor * columns.divisor));
  });
}

template <class WindowOf>
void spread_over_windows(const tensor& dy, std::vector<double>& dx, const extents4& xe, WindowOf window_of) {
  for_each_window(xe, extents4(dy.dims()), window_of, [&](auto out, auto plane, window rows, window columns) {
    const double share = dy.data<float>()[out] / static_cast<double>(rows.divisor * columns.divisor);
    for (std::int64_t h = rows.begin; h < rows.end; ++h)
      for (std::int64_t w = columns.begin; w < columns.end; ++w)
        dx[static_cast<std::size_t>(plane + h * xe.w + w)] += share;
  });
}

auto windows_of(const pool2d_args& args, const extents4& x) {
  return [&args, extent = std::array{x.h, x.w}](std::size_t axis, std::int64_t place) {
    return pool_window(args, axis, place, extent[axis]);
  };
}

auto adaptive_windows_of(const extents4& x, const extents4& y) {
  return [in = std::array{x.h, x.w}, out = std::array{y.h, y.w}](std::size_t axis, std::int64_t place) {
    return adaptive_window(place, out[axis], in[axis]);
  };
}

} // namespace

pool_result reference_convolution::pool2d_forward(const pool2d_args& args, const tensor& x, bool training) {
  const extents4 xe(x.dims());
  pool_result result;
  result.y = memory_.allocate_activation(
      {xe.n, xe.c, pool_window_count(xe.h, args.kernel[0], args.stride[0], args.padding[0], args.ceil_mode),
       pool_window_count(xe.w, args.kernel[1], args.stride[1], args.padding[1], args.ceil_mode)});
  if (args.kind == pool_kind::average) {
    average_windows(x, result.y, windows_of(args, xe));
    return result;
  }
  if (training) result.workspace = memory_.allocate(dtype::i32, result.y.dims(), memory_use::activations);
  const float* from = x.data<float>();
  for_each_window(xe, extents4(result.y.dims()), windows_of(args, xe),
                  [&](auto out, auto plane, window rows, window columns) {
                    // The first of equals wins, and NaN wins over all, as in PyTorch.
                    std::int64_t best = rows.begin * xe.w + columns.begin;
                    for (std::int64_t h = rows.begin; h < rows.end; ++h)
                      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
                        const float value = from[plane + h * xe.w + w];
                        if (value > from[plane + best] || std::isnan(value)) best = h * xe.w + w;
                      }
                    result.y.template data<float>()[out] = from[plane + best];
                    if (training) result.workspace.template data<std::int32_t>()[out] = static_cast<std::int32_t>(best);
                  });
  return result;
}

tensor reference_convolution::pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace,
                                              const tensor& dy) {
  const extents4 xe(x);
  std::vector<double> dx(static_cast<std::size_t>(element_count(x)));
  if (args.kind == pool_kind::average) {
    spread_over_windows(dy, dx, xe, windows_of(args, xe));
  } else {
    check(static_cast<bool>(workspace), "the backward of max pooling needs the forward's workspace");
    for_each_window(xe, extents4(dy.dims()), windows_of(args, xe), [&](auto out, auto plane, window, window) {
      dx[static_cast<std::size_t>(plane + workspace.data<std::int32_t>()[out])] += dy.data<float>()[out];
    });
  }
  tensor result = memory_.allocate_activation(x);
  std::copy(dx.begin(), dx.end(), result.data<float>());
  return result;
}

tensor reference_convolution::adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) {
  const extents4 xe(x.dims());
  tensor y = memory_.allocate_activation({xe.n, xe.c, output[0], output[1]});
  average_windows(x, y, adaptive_windows_of(xe, extents4(y.dims())));
  return y;
}

tensor reference_convolution::adaptive_average_pool2d_backward(const shape& x, const tensor& dy) {
  const extents4 xe(x);
  std::vector<double> dx(static_cast<std::size_t>(element_count(x)));
  spread_over_windows(dy, dx, xe, adaptive_windows_of(xe, extents4(dy.dims())));
  tensor result = memory_.allocate_activation(x);
  std::copy(dx.begin(), dx.end(), result.data<float>());
  return result;
}

} // namespace penstock
