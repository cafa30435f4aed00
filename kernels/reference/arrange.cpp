// Work that only moves elements: concat and split.
#include "kernels/check.hpp"
#include "kernels/reference/reference_elementwise.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace penstock {

namespace {

// A tensor seen as (before axis 1, axis 1 and all behind it): concat and split move rows of the second.
std::int64_t row_elements(const tensor& x) {
  return x.elements() / std::max<std::int64_t>(x.dim(0), 1);
}

} // namespace

tensor reference_elementwise::concat(std::span<const tensor> parts) {
  check(!parts.empty(), "concat: no parts");
  shape dims = parts[0].dims();
  dims.at(1) = std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                               [](std::int64_t sum, const tensor& part) { return sum + part.dim(1); });
  tensor y = memory_.allocate_activation(dims);
  float* to = y.data<float>();
  for (std::int64_t n = 0; n < dims[0]; ++n)
    for (const tensor& part : parts)
      to = std::copy_n(part.data<float>() + n * row_elements(part), row_elements(part), to);
  return y;
}

std::vector<tensor> reference_elementwise::split(const tensor& x, std::span<const std::int64_t> channels) {
  std::vector<tensor> parts;
  for (const std::int64_t count : channels) {
    shape dims = x.dims();
    dims.at(1) = count;
    parts.push_back(memory_.allocate_activation(std::move(dims)));
  }
  check(std::accumulate(channels.begin(), channels.end(), std::int64_t{0}) == x.dim(1),
        "split: channels do not add up");
  const float* from = x.data<float>();
  for (std::int64_t n = 0; n < x.dim(0); ++n)
    for (const tensor& part : parts) {
      std::copy_n(from, row_elements(part), part.data<float>() + n * row_elements(part));
      from += row_elements(part);
    }
  return parts;
}

} // namespace penstock
