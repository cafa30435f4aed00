// Work that only moves elements: formats, concat and split. Also how the backend is made.
#include "kernels/check.hpp"
#include "kernels/reference/reference_backend.hpp"

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

template <class Family>
static std::shared_ptr<Family> unowned(Family& family) {
  return {std::shared_ptr<void>(), &family};
}

reference_backend::reference_backend(penstock::device& device) : device_(device) {
  offer(unowned<convolution_ops>(*this));
  offer(unowned<elementwise_ops>(*this));
  offer(unowned<linear_ops>(*this));
  offer(unowned<loss_ops>(*this));
  offer(unowned<normalisation_ops>(*this));
  offer(unowned<optimizer_ops>(*this));
}

std::unique_ptr<backend> make_reference_backend(device& device) {
  return std::make_unique<reference_backend>(device);
}

tensor reference_backend::allocate_gradient(shape dims) {
  return allocate(dtype::f32, std::move(dims), memory_use::gradients);
}

format_ptr reference_backend::activation_format(const shape&) {
  return nullptr;
}

tensor reference_backend::reorder(const tensor& x, format_ptr format, memory_use) {
  check(x.is_plain() && format == nullptr, "the reference backend knows the plain format only");
  return x;
}

void reference_backend::reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) {
  check(plain.is_plain() && target.is_plain(), "the reference backend knows the plain format only");
  std::copy_n(plain.data<float>(), plain.elements(), target.data<float>() + first * row_elements(target));
}

tensor reference_backend::concat(std::span<const tensor> parts) {
  check(!parts.empty(), "concat: no parts");
  shape dims = parts[0].dims();
  dims.at(1) = std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                               [](std::int64_t sum, const tensor& part) { return sum + part.dim(1); });
  tensor y = allocate_activation(dims);
  float* to = y.data<float>();
  for (std::int64_t n = 0; n < dims[0]; ++n)
    for (const tensor& part : parts)
      to = std::copy_n(part.data<float>() + n * row_elements(part), row_elements(part), to);
  return y;
}

std::vector<tensor> reference_backend::split(const tensor& x, std::span<const std::int64_t> channels) {
  std::vector<tensor> parts;
  for (const std::int64_t count : channels) {
    shape dims = x.dims();
    dims.at(1) = count;
    parts.push_back(allocate_activation(std::move(dims)));
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
