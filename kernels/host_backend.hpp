// What is the same for all devices whose operations are done when they return, in memory that the host reads.
#pragma once

#include "kernels/backend.hpp"

namespace penstock {

class host_backend : public backend {
public:
  explicit host_backend(penstock::device& owner) : owner_(owner) {}
  penstock::device& device() final { return owner_; }
  tensor copy(const tensor& x, memory_use use) final;
  tensor from_host(const tensor& x, memory_use use) final;
  tensor to_host(const tensor& x, allocator& host) final;
  void on_host(std::vector<tensor> operands, std::vector<tensor> results, host_computation compute) final;
  std::vector<tensor> fetch(std::vector<tensor> scalars) final;
  event_ptr record() final;
  void wait_for(const event_ptr& reached) final;
  void when_reached(std::function<void()> call) final;

private:
  penstock::device& owner_;
};

} // namespace penstock
