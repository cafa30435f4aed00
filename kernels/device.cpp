// Devices by id.
#include "kernels/device.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace penstock {

std::string to_string(device_id id) {
  return (id.kind == device_kind::cpu ? "cpu:" : "cuda:") + std::to_string(id.index);
}

std::shared_ptr<device> open_device(device_id id) {
  return id.kind == device_kind::cpu ? open_cpu_device(id.index) : open_cuda_device(id.index);
}

int device_count(device_kind kind) {
  return kind == device_kind::cpu ? cpu_device_count() : cuda_device_count();
}

} // namespace penstock
