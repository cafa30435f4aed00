// CUDA GPUs as devices.
#pragma once

#include "kernels/device.hpp"

#include <memory>

namespace penstock {

/// Throws penstock::error when this build or machine has no such GPU.
std::shared_ptr<device> open_cuda_device(int index);

/// Number of usable GPUs; 0 where the build or the machine has none.
int cuda_device_count();

} // namespace penstock
