// Images to sequences, axes swapped, parts taken out and put back: copies of whole rows where they lie together.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_arrangement.hpp"

#include <cstring>

namespace penstock {

namespace {

std::size_t product(const shape& dims, std::size_t from, std::size_t to) {
  std::size_t all = 1;
  for (std::size_t i = from; i < to; ++i)
    all *= static_cast<std::size_t>(dims[i]);
  return all;
}

constexpr std::size_t serial_below = 1 << 16; // bytes that are not worth a team of threads

// Between (B, C, S) and (B, S, C), squares at a time, so that both sides use whole lines of the cache.
void swap_axes(std::int64_t batch, std::int64_t rows, std::int64_t columns, const float* from, float* to) {
  constexpr std::int64_t side = 16;
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t first = 0; first < columns; first += side) {
      const float* in = from + b * rows * columns;
      float* out = to + b * rows * columns;
      const std::int64_t last = std::min(first + side, columns);
      for (std::int64_t r0 = 0; r0 < rows; r0 += side)
        for (std::int64_t c = first; c < last; ++c)
          for (std::int64_t r = r0; r < std::min(r0 + side, rows); ++r)
            out[c * rows + r] = in[r * columns + c];
    }
}

// Calls move(image, place, channel, count, offset): `count` channels from `channel` on of one place lie together at
// `offset` of the blocked tensor.
template <class Move>
void for_blocks(const shape& images, std::int64_t block, const Move& move) {
  const std::int64_t channels = images[1], area = images[2] * images[3], blocks = (channels + block - 1) / block;
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < images[0]; ++n)
    for (std::int64_t s = 0; s < area; ++s)
      for (std::int64_t k = 0; k < blocks; ++k)
        move(n, s, k * block, std::min(block, channels - k * block), ((n * blocks + k) * area + s) * block);
}

} // namespace

tensor onednn_arrangement::to_sequence(const tensor& images) {
  const shape& d = images.dims();
  const tensor source = context_.in_activation_format(images);
  const std::int64_t channels = d.at(1), area = d.at(2) * d.at(3);
  tensor y = context_.allocate(dtype::f32, {d[0], area, channels}, memory_use::activations);
  const float* from = source.data<float>();
  float* to = y.data<float>();
  if (source.is_plain())
    swap_axes(d[0], channels, area, from, to);
  else
    for_blocks(d, context_.channel_block(),
               [=](std::int64_t n, std::int64_t s, std::int64_t c, std::int64_t count, std::int64_t offset) {
                 std::copy_n(from + offset, count, to + (n * area + s) * channels + c);
               });
  return y;
}

tensor onednn_arrangement::to_images(const tensor& sequence, const shape& images) {
  const std::int64_t channels = images.at(1), area = images.at(2) * images.at(3), block = context_.channel_block();
  tensor y = context_.allocate_activation(images);
  const float* from = sequence.data<float>();
  float* to = y.data<float>();
  if (y.is_plain())
    swap_axes(images[0], area, channels, from, to);
  else
    for_blocks(images, block,
               [=](std::int64_t n, std::int64_t s, std::int64_t c, std::int64_t count, std::int64_t offset) {
                 float* padding = std::copy_n(from + (n * area + s) * channels + c, count, to + offset);
                 std::fill_n(padding, block - count, 0.0F);
               });
  return y;
}

tensor onednn_arrangement::transpose(const tensor& x, std::size_t one, std::size_t other) {
  const std::size_t a = std::min(one, other), b = std::max(one, other);
  if (a == b) return x;
  shape dims = x.dims();
  std::swap(dims.at(a), dims.at(b));
  tensor y = context_.allocate(x.type(), dims, memory_use::activations);
  const std::size_t outer = product(dims, 0, a), rows = static_cast<std::size_t>(x.dim(a)),
                    middle = product(dims, a + 1, b), columns = static_cast<std::size_t>(x.dim(b));
  if (b + 1 == dims.size() && middle == 1 && x.type() == dtype::f32) {
    swap_axes(static_cast<std::int64_t>(outer), x.dim(a), x.dim(b), x.data<float>(), y.data<float>());
    return y;
  }
  const std::size_t piece = product(dims, b + 1, dims.size()) * size_of(x.type());
  const std::byte* from = x.raw();
  std::byte* to = y.raw();
#pragma omp parallel for collapse(2) schedule(static) if (x.bytes() > serial_below)
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t m = 0; m < middle; ++m)
        for (std::size_t r = 0; r < rows; ++r)
          std::memcpy(to + (((o * columns + c) * middle + m) * rows + r) * piece,
                      from + (((o * rows + r) * middle + m) * columns + c) * piece, piece);
  return y;
}

tensor onednn_arrangement::slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) {
  shape dims = x.dims();
  dims.at(axis) = end - begin;
  tensor y = context_.allocate(x.type(), dims, memory_use::activations);
  const std::size_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, dims.size()) * size_of(x.type());
  const std::size_t row = static_cast<std::size_t>(x.dim(axis)) * inner;
  const std::size_t part = static_cast<std::size_t>(end - begin) * inner;
  const std::byte* from = x.raw() + static_cast<std::size_t>(begin) * inner;
  std::byte* to = y.raw();
#pragma omp parallel for schedule(static) if (y.bytes() > serial_below)
  for (std::size_t o = 0; o < outer; ++o)
    std::memcpy(to + o * part, from + o * row, part);
  return y;
}

tensor onednn_arrangement::widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) {
  tensor y = context_.allocate(part.type(), whole, memory_use::gradients);
  const std::size_t outer = product(whole, 0, axis),
                    inner = product(whole, axis + 1, whole.size()) * size_of(part.type());
  const std::size_t row = static_cast<std::size_t>(whole.at(axis)) * inner;
  const std::size_t before = static_cast<std::size_t>(begin) * inner;
  const std::size_t bytes = static_cast<std::size_t>(part.dim(axis)) * inner;
  const std::byte* from = part.raw();
  std::byte* to = y.raw();
#pragma omp parallel for schedule(static) if (y.bytes() > serial_below)
  for (std::size_t o = 0; o < outer; ++o) {
    std::memset(to + o * row, 0, before);
    std::memcpy(to + o * row + before, from + o * bytes, bytes);
    std::memset(to + o * row + before + bytes, 0, row - before - bytes);
  }
  return y;
}

} // namespace penstock
