// Concatenation and splitting along channels: copies of whole rows where blocks allow, through plain tensors elsewhere.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_elementwise.hpp"

#include <cstring>

namespace penstock {

namespace {

// Copies one tensor's part of each of `rows` rows.
void copy_rows(std::int64_t rows, std::byte* to, std::size_t to_row, const std::byte* from, std::size_t from_row,
               std::size_t bytes) {
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < rows; ++n)
    std::memcpy(to + static_cast<std::size_t>(n) * to_row, from + static_cast<std::size_t>(n) * from_row, bytes);
}

std::size_t row_bytes(const tensor& x) {
  return x.bytes() / static_cast<std::size_t>(x.dim(0));
}

} // namespace

bool onednn_elementwise::has_whole_rows(const shape& whole, std::span<const std::int64_t> channels) {
  // Blocked tensors lie one behind another only when each fills its last block and is itself blocked.
  if (context_.activation_format(whole) == nullptr) return true;
  for (const auto c : channels)
    if (c % context_.channel_block() != 0) return false;
  return true;
}

tensor onednn_elementwise::concat(std::span<const tensor> parts) {
  check(!parts.empty(), "concat needs parts");
  shape dims = parts[0].dims();
  std::vector<std::int64_t> channels;
  dims.at(1) = 0;
  for (const auto& part : parts) {
    channels.push_back(part.dim(1));
    dims[1] += part.dim(1);
  }
  const bool whole_rows = has_whole_rows(dims, channels);
  const format_ptr format = context_.activation_format(dims);
  tensor y = context_.allocate(parts[0].type(), dims, memory_use::activations, whole_rows ? format : nullptr);
  std::byte* to = y.raw();
  for (const auto& part : parts) {
    const tensor source = context_.in_format(part, whole_rows ? context_.activation_format(part.dims()) : nullptr);
    copy_rows(dims[0], to, row_bytes(y), source.raw(), row_bytes(source), row_bytes(source));
    to += row_bytes(source);
  }
  return context_.reorder(y, format, memory_use::activations);
}

std::vector<tensor> onednn_elementwise::split(const tensor& x, std::span<const std::int64_t> channels) {
  const bool whole_rows = has_whole_rows(x.dims(), channels);
  const tensor source = context_.in_format(x, whole_rows ? context_.activation_format(x.dims()) : nullptr);
  const std::byte* from = source.raw();
  std::vector<tensor> parts;
  for (const auto c : channels) {
    shape dims = x.dims();
    dims.at(1) = c;
    const format_ptr format = context_.activation_format(dims);
    tensor part = context_.allocate(x.type(), dims, memory_use::activations, whole_rows ? format : nullptr);
    copy_rows(dims[0], part.raw(), row_bytes(part), from, row_bytes(source), row_bytes(part));
    from += row_bytes(part);
    parts.push_back(context_.reorder(part, format, memory_use::activations));
  }
  return parts;
}

} // namespace penstock
