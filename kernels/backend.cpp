// The parts of a backend that are the same for every device: its table of families, and how it allocates.
#include "kernels/backend.hpp"

#include "kernels/check.hpp"
#include "kernels/device.hpp"

#include <algorithm>

namespace penstock {

void* backend::find(const std::type_info& family) const {
  // Within one program a type has one name; types of plug-ins may have their own copy of it.
  for (const auto& [type, operations] : families_)
    if (type.name() == family.name()) return operations.get();
  for (const auto& [type, operations] : families_)
    if (type == std::type_index(family)) return operations.get();
  return nullptr;
}

void backend::put(const std::type_info& family, std::shared_ptr<void> operations) {
  const auto same = std::find_if(families_.begin(), families_.end(),
                                 [&](const auto& known) { return known.first == std::type_index(family); });
  if (same != families_.end())
    same->second = std::move(operations);
  else
    families_.emplace_back(family, std::move(operations));
}

void backend::throw_missing(std::string_view family) {
  throw error("[device] " + to_string(device().id()) + " has no " + std::string(family));
}

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
