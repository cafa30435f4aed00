// Average pooling over any bins, on blocks of channels.
#include "kernels/check.hpp"
#include "kernels/cpu/average_bins.hpp"
#include "kernels/cpu/onednn_convolution.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/window.hpp"

#include <type_traits>

namespace penstock {

namespace {

// Images of `channels` interleaved channels: (planes, H, W, channels).
struct planes_view {
  std::int64_t planes, height, width, channels;
};

planes_view view_of(const shape& dims, std::int64_t block) {
  return {dims[0] * ((dims[1] + block - 1) / block), dims[2], dims[3], block};
}

// The number of channels is a template parameter, so that a pixel's stay in registers.
template <std::int64_t Channels>
[[gnu::always_inline]] inline void average_plane(const average_bins& bins, std::int64_t width, const float* in,
                                                 float* out) {
  for (const auto& rows : bins.rows)
    for (const auto& columns : bins.columns) {
      float sum[Channels] = {};
      for (std::int64_t h = rows.begin; h < rows.end; ++h)
        for (std::int64_t w = columns.begin; w < columns.end; ++w) {
          const float* pixel = in + (h * width + w) * Channels;
          for (std::int64_t c = 0; c < Channels; ++c)
            sum[c] += pixel[c];
        }
      const float divisor = static_cast<float>(rows.divisor * columns.divisor);
      for (std::int64_t c = 0; c < Channels; ++c)
        out[c] = sum[c] / divisor;
      out += Channels;
    }
}

template <std::int64_t Channels>
[[gnu::always_inline]] inline void spread_plane(const average_bins& bins, const planes_view& x, const float* in,
                                                float* out) {
  for (std::int64_t i = 0; i < x.height * x.width * Channels; ++i)
    out[i] = 0;
  for (const auto& rows : bins.rows)
    for (const auto& columns : bins.columns) {
      const float divisor = static_cast<float>(rows.divisor * columns.divisor);
      float share[Channels];
      for (std::int64_t c = 0; c < Channels; ++c)
        share[c] = in[c] / divisor;
      for (std::int64_t h = rows.begin; h < rows.end; ++h)
        for (std::int64_t w = columns.begin; w < columns.end; ++w) {
          float* pixel = out + (h * x.width + w) * Channels;
          for (std::int64_t c = 0; c < Channels; ++c)
            pixel[c] += share[c];
        }
      in += Channels;
    }
}

/// run(std::integral_constant) of the number of interleaved channels.
template <class Run>
void with_channels(std::int64_t channels, const Run& run) {
  if (channels == 16) return run(std::integral_constant<std::int64_t, 16>());
  if (channels == 8) return run(std::integral_constant<std::int64_t, 8>());
  check(channels == 1, "average pooling of another number of interleaved channels");
  run(std::integral_constant<std::int64_t, 1>());
}

} // namespace

average_bins window_bins(const pool2d_args& args, const shape& x) {
  average_bins bins;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extent = x.at(2 + axis), padding = args.padding[axis];
    const auto count = pool_window_count(extent, args.kernel[axis], args.stride[axis], padding, args.ceil_mode);
    auto& list = axis == 0 ? bins.rows : bins.columns;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * args.stride[axis] - padding;
      const std::int64_t end = std::min(begin + args.kernel[axis], extent + padding);
      const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, extent);
      list.push_back({first, last, args.count_include_pad ? end - begin : last - first});
    }
  }
  return bins;
}

average_bins adaptive_bins(const shape& x, std::array<std::int64_t, 2> output) {
  average_bins bins;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extent = x.at(2 + axis), count = output[axis];
    auto& list = axis == 0 ? bins.rows : bins.columns;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * extent / count, end = ((i + 1) * extent + count - 1) / count;
      list.push_back({begin, end, end - begin});
    }
  }
  return bins;
}

tensor onednn_convolution::average_pool_forward(const average_bins& bins, const tensor& x) {
  const auto rows = static_cast<std::int64_t>(bins.rows.size()),
             columns = static_cast<std::int64_t>(bins.columns.size());
  tensor y = context_.allocate_activation({x.dim(0), x.dim(1), rows, columns});
  const auto view = view_of(x.dims(), x.is_plain() ? 1 : context_.channel_block());
  const std::int64_t in_plane = view.height * view.width * view.channels, out_plane = rows * columns * view.channels;
  const float* in = x.data<float>();
  float* out = y.data<float>();
  with_channels(view.channels, [&](auto channels) {
    vector_loop(view.planes, 1, 2, [&, in, out](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      for (std::int64_t p = begin; p < end; ++p)
        average_plane<decltype(channels)::value>(bins, view.width, in + p * in_plane, out + p * out_plane);
    });
  });
  return y;
}

tensor onednn_convolution::average_pool_backward(const average_bins& bins, const shape& x, const tensor& dy) {
  tensor dx = context_.allocate(dtype::f32, x, memory_use::gradients, context_.activation_format(x));
  const auto view = view_of(x, dx.is_plain() ? 1 : context_.channel_block());
  const std::int64_t in_plane = dy.dim(2) * dy.dim(3) * view.channels;
  const std::int64_t out_plane = view.height * view.width * view.channels;
  const float* in = dy.data<float>();
  float* out = dx.data<float>();
  with_channels(view.channels, [&](auto channels) {
    vector_loop(view.planes, 1, 2, [&, in, out](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      for (std::int64_t p = begin; p < end; ++p)
        spread_plane<decltype(channels)::value>(bins, view, in + p * in_plane, out + p * out_plane);
    });
  });
  return dx;
}

} // namespace penstock
