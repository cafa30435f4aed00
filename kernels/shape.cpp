// Extents: count and text.
#include "kernels/shape.hpp"

#include "kernels/check.hpp"

namespace penstock {

std::int64_t element_count(const shape& dims) {
  std::int64_t n = 1;
  for (const auto d : dims)
    check(d >= 0 && !__builtin_mul_overflow(n, d, &n), "a shape with a negative extent or too many elements");
  return n;
}

std::string to_string(const shape& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

} // namespace penstock
