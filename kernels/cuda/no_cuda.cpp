// Null twin of the CUDA device: reports that there is none.
#include "kernels/check.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace penstock {

std::shared_ptr<device> open_cuda_device(int index) {
  throw error("[device] cuda:" + std::to_string(index) + " unavailable: built without CUDA");
}

int cuda_device_count() {
  return 0;
}

} // namespace penstock
