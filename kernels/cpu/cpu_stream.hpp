// A thread of its own that runs posted work in order, with its own compute threads.
#pragma once

#include "kernels/stream.hpp"

#include <memory>

namespace penstock {

/// Starts the thread. Throws usage_error for a thread count below 1 or a core that does not exist, and penstock::error
/// when the system refuses to pin to the cores.
std::unique_ptr<stream> make_cpu_stream(std::shared_ptr<device> owner, const stream_options& options);
/// On the thread of another one. Throws usage_error where that is no stream of the CPU.
std::unique_ptr<stream> make_cpu_stream_beside(std::shared_ptr<device> owner, stream& other);

} // namespace penstock
