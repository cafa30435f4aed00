// The control plane of all ranks but rank 0: one line to it.
#pragma once

#include "transport/control/hello.hpp"
#include "transport/control/join.hpp"

#include <memory>

namespace penstock::transport {

/// Connects to rank 0 and waits until all ranks are there. Throws as join_job().
std::unique_ptr<control_plane> follow_job(const launch& where, const join_options& options, hello own);

} // namespace penstock::transport
