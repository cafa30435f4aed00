// The parts of a backend that are the same for every device: how it allocates.
#include "kernels/backend.hpp"

#include "kernels/device.hpp"

namespace penstock {

tensor backend::allocate_activation(shape dims) {
  format_ptr format = dims.size() == 4 ? activation_format(dims) : nullptr;
  return allocate(dtype::f32, std::move(dims), memory_use::activations, std::move(format));
}

tensor backend::allocate(dtype type, shape dims, memory_use use, format_ptr format) {
  return tensor::allocate(device().memory(), type, std::move(dims), use, std::move(format));
}

tensor backend::allocate_zeroed(dtype type, shape dims, memory_use use, format_ptr format) {
  const auto bytes = stored_bytes(type, dims, format);
  return tensor(type, std::move(dims), device().memory().allocate_zeroed(bytes, use), std::move(format));
}

} // namespace penstock
