// Images to sequences, axes swapped, parts taken out and put back, one element after another.
#include "kernels/check.hpp"
#include "kernels/reference/reference_arrangement.hpp"

#include <cstring>

namespace penstock {

namespace {

std::int64_t product(const shape& dims, std::size_t from, std::size_t to) {
  return element_count(
      shape(dims.begin() + static_cast<std::ptrdiff_t>(from), dims.begin() + static_cast<std::ptrdiff_t>(to)));
}

} // namespace

tensor reference_arrangement::to_sequence(const tensor& images) {
  const shape& d = images.dims();
  return transpose(images.reshaped({d.at(0), d.at(1), d.at(2) * d.at(3)}), 1, 2);
}

tensor reference_arrangement::to_images(const tensor& sequence, const shape& images) {
  return transpose(sequence, 1, 2).reshaped(images);
}

tensor reference_arrangement::transpose(const tensor& x, std::size_t one, std::size_t other) {
  const std::size_t a = std::min(one, other), b = std::max(one, other);
  shape dims = x.dims();
  std::swap(dims.at(a), dims.at(b));
  if (a == b) return x;
  tensor y = memory_.allocate(x.type(), dims, memory_use::activations);
  const std::int64_t outer = product(dims, 0, a), rows = x.dim(a), middle = product(dims, a + 1, b), columns = x.dim(b);
  const std::size_t piece = static_cast<std::size_t>(product(dims, b + 1, dims.size())) * size_of(x.type());
  std::byte* to = y.raw();
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t m = 0; m < middle; ++m)
        for (std::int64_t r = 0; r < rows; ++r, to += piece)
          std::memcpy(to, x.raw() + static_cast<std::size_t>(((o * rows + r) * middle + m) * columns + c) * piece,
                      piece);
  return y;
}

tensor reference_arrangement::slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) {
  shape dims = x.dims();
  dims.at(axis) = end - begin;
  tensor y = memory_.allocate(x.type(), dims, memory_use::activations);
  const std::size_t inner = static_cast<std::size_t>(product(dims, axis + 1, dims.size())) * size_of(x.type());
  const std::size_t row = static_cast<std::size_t>(x.dim(axis)) * inner;
  const std::size_t part = static_cast<std::size_t>(end - begin) * inner;
  for (std::size_t o = 0; o < static_cast<std::size_t>(product(dims, 0, axis)); ++o)
    std::memcpy(y.raw() + o * part, x.raw() + o * row + static_cast<std::size_t>(begin) * inner, part);
  return y;
}

tensor reference_arrangement::widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) {
  tensor y = memory_.allocate_zeroed(part.type(), whole, memory_use::gradients);
  const std::size_t inner = static_cast<std::size_t>(product(whole, axis + 1, whole.size())) * size_of(part.type());
  const std::size_t row = static_cast<std::size_t>(whole.at(axis)) * inner;
  const std::size_t bytes = static_cast<std::size_t>(part.dim(axis)) * inner;
  for (std::size_t o = 0; o < static_cast<std::size_t>(product(whole, 0, axis)); ++o)
    std::memcpy(y.raw() + o * row + static_cast<std::size_t>(begin) * inner, part.raw() + o * bytes, bytes);
  return y;
}

} // namespace penstock
