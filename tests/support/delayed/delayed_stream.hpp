// The stream of a delayed device: one thread asks, another computes.
#pragma once

#include "kernels/stream.hpp"
#include "tests/support/delayed/delayed_device.hpp"

namespace penstock::testing {

class delayed_memory;

/// Throws usage_error where the device has a stream.
std::unique_ptr<stream> make_delayed_stream(std::shared_ptr<device> owner, delayed_memory& memory,
                                            const stream_options& options, const delayed_options& how);
/// On the two threads of another one. Throws usage_error where that is no stream of a delayed device.
std::unique_ptr<stream> make_delayed_stream_beside(std::shared_ptr<device> owner, delayed_memory& memory, stream& other,
                                                   const delayed_options& how);

} // namespace penstock::testing
