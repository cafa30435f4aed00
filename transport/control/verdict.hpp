// The first cause as it travels from rank 0 to the others.
#pragma once

#include "transport/control/control_plane.hpp"
#include "transport/control/frame.hpp"

namespace penstock::transport {

/// A frame of kind failed or lost. Of also_lost as many as a frame's name holds, the lowest first.
frame frame_of(const job_failure& cause);

/// Throws penstock::error when the ranks that are also lost are no numbers.
job_failure failure_of(const frame& f);

} // namespace penstock::transport
