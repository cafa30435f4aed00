// What tests of the delayed device share: values in, values out, and a way to hold the device up.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/stream.hpp"
#include "tests/support/delayed/delayed_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

namespace penstock::testing {

/// A device with its stream.
struct delayed_machine {
  explicit delayed_machine(const delayed_options& options = {})
      : device(open_delayed_device(options)), work(device->create_stream({.name = "delayed"})) {}
  std::shared_ptr<penstock::device> device;
  std::unique_ptr<stream> work;
};

/// In the host's memory: 0, 1, 2, ...
inline tensor counting(memory_pool& host, std::int64_t count) {
  auto x = tensor::allocate(host, dtype::f32, {count}, memory_use::scratch);
  for (std::int64_t i = 0; i < count; ++i)
    x.data<float>()[i] = static_cast<float>(i);
  return x;
}

inline std::vector<float> values_of(const tensor& x) {
  return {x.data<float>(), x.data<float>() + x.elements()};
}

/// What a tensor of the device holds when all that was posted before is done.
inline std::vector<float> values_on(stream& work, const tensor& x) {
  memory_pool host;
  tensor seen;
  work.run([&](backend& ops) { seen = ops.to_host(x, host); });
  return values_of(seen);
}

/// The device stops where it is told to, until it is let go.
class barrier {
public:
  /// Called in posted work: the device waits there.
  void hold(backend& ops) {
    ops.when_reached([this] { open_.get_future().wait(); });
  }
  void let_go() { open_.set_value(); }

private:
  std::promise<void> open_;
};

} // namespace penstock::testing
