// How this process appears to the others.
#pragma once

#include "transport/control/control_plane.hpp"

namespace penstock::transport {

/// Host name, process id, and an identity that two processes share if they run on one booted kernel and in one network
/// namespace: then they can share memory, and they have one clock.
member this_member();

} // namespace penstock::transport
