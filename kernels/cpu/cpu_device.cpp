// The CPU as a device: its memory domain and the streams on it.
#include "kernels/cpu/cpu_device.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_stream.hpp"

#include <sched.h>
#include <unistd.h>

namespace penstock {

namespace {

class cpu_device final : public device, public std::enable_shared_from_this<cpu_device> {
public:
  device_id id() const override { return {device_kind::cpu, 0}; }
  allocator& memory() override { return pool_; }
  memory_pool* host_memory() override { return &pool_; }
  std::unique_ptr<stream> create_stream(const stream_options& options) override {
    return make_cpu_stream(shared_from_this(), options);
  }
  std::unique_ptr<stream> create_stream_beside(stream& other) override {
    return make_cpu_stream_beside(shared_from_this(), other);
  }

private:
  memory_pool pool_;
};

} // namespace

std::shared_ptr<device> open_cpu_device(int index) {
  if (index != 0) throw error("[device] cpu:" + std::to_string(index) + " unavailable: the only CPU device is cpu:0");
  return std::make_shared<cpu_device>();
}

int cpu_device_count() {
  return 1;
}

} // namespace penstock
