// Memory and streams of one delayed device.
#include "tests/support/delayed/delayed_device.hpp"

#include "tests/support/delayed/delayed_memory.hpp"
#include "tests/support/delayed/delayed_stream.hpp"

namespace penstock::testing {

namespace {

class delayed_device final : public device, public std::enable_shared_from_this<delayed_device> {
public:
  explicit delayed_device(const delayed_options& options) : options_(options) {}
  device_id id() const override { return {device_kind::cpu, 0}; }
  allocator& memory() override { return memory_; }
  memory_pool* host_memory() override { return nullptr; }
  std::unique_ptr<stream> create_stream(const stream_options& options) override {
    return make_delayed_stream(shared_from_this(), memory_, options, options_);
  }
  std::unique_ptr<stream> create_stream_beside(stream& other) override {
    return make_delayed_stream_beside(shared_from_this(), memory_, other, options_);
  }

private:
  delayed_options options_;
  delayed_memory memory_;
};

} // namespace

std::shared_ptr<device> open_delayed_device(const delayed_options& options) {
  return std::make_shared<delayed_device>(options);
}

} // namespace penstock::testing
