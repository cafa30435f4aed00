// Devices by id.
#include "kernels/device.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/device_kinds.hpp"

namespace penstock {

std::string to_string(device_id id) {
  return (id.kind == device_kind::cpu ? "cpu:" : "cuda:") + std::to_string(id.index);
}

std::shared_ptr<device> open_device(device_id id) {
  return open_device(id.kind == device_kind::cpu ? "cpu" : "cuda", id.index);
}

int device_count(device_kind kind) {
  return kind == device_kind::cpu ? cpu_device_count() : cuda_device_count();
}

} // namespace penstock
