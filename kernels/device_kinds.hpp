// Devices by the name of their kind, as users choose them: cpu, cuda, and what plug-ins and tests bring.
#pragma once

#include "kernels/device.hpp"

#include <functional>
#include <string_view>

namespace penstock {

struct device_kind_entry {
  std::string name;                                       ///< "cpu"
  std::function<std::shared_ptr<device>(int index)> open; ///< throws penstock::error where there is none
  std::string computed_by; ///< the library that decides its bits; empty: compute_library's
};

/// Makes a kind known; one of a name that is known takes its place. Before devices are opened: it is not thread safe.
void add_device_kind(device_kind_entry entry);

/// Throws usage_error for an unknown name, with the nearest, and penstock::error when this build or machine has no such
/// device.
std::shared_ptr<device> open_device(std::string_view kind, int index);

/// What runs on that kind of device record; `reference`: with plain loops in the place of its library.
compute_library_info compute_library_of(std::string_view kind, bool reference);

} // namespace penstock
