// The delayed device as a kind of device, under any name.
#pragma once

#include "kernels/device_kinds.hpp"
#include "tests/support/delayed/delayed_device.hpp"

#include <atomic>

namespace penstock::testing {

/// Each device that is opened dawdles in its own way. Runs record its bits as what they are, the reference loops'.
inline device_kind_entry delayed_kind(std::string name) {
  return {std::move(name),
          [](int) {
            static std::atomic<std::uint64_t> opened{0};
            return open_delayed_device({.seed = ++opened});
          },
          "reference loops"};
}

} // namespace penstock::testing
