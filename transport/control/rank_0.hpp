// The control plane of rank 0: the hub, the door and the lines to all others.
#pragma once

#include "transport/control/hello.hpp"
#include "transport/control/join.hpp"

#include <memory>

namespace penstock::transport {

/// Listens and waits until all ranks are there. Throws as join_job().
std::unique_ptr<control_plane> lead_job(const launch& where, const join_options& options, hello own);

} // namespace penstock::transport
