// The CPU as a device: its memory domain and the streams on it.
#pragma once

#include "kernels/device.hpp"

#include <memory>

namespace penstock {

/// A memory domain of its own on this machine's processors; any number may be open at once. Throws penstock::error for
/// an index other than 0.
std::shared_ptr<device> open_cpu_device(int index);

/// 1.
int cpu_device_count();

} // namespace penstock
