// Ranks that are threads of one process: the data plane and the control plane without a network, for tests.
#pragma once

#include "transport/control/control_plane.hpp"
#include "transport/endpoint.hpp"

#include <optional>

namespace penstock::transport {

/// Connected endpoints for ranks 0 .. size-1. Parts are copied into what the receiver places, as a network would;
/// delivery is on a thread of each endpoint's own. An endpoint that is destroyed is a peer that is lost. With a seed,
/// messages overtake each other at random.
std::vector<std::unique_ptr<endpoint>> make_in_process_endpoints(int size,
                                                                 std::optional<std::uint64_t> shuffle_seed = {});

/// Connected control planes for ranks 0 .. size-1. One that is destroyed without leave() is a rank that died.
std::vector<std::unique_ptr<control_plane>> make_in_process_control(int size);

} // namespace penstock::transport
