// Who listens on which channel of the data plane.
#pragma once

#include "transport/endpoint.hpp"

namespace penstock::actors {

/// Messages between actors; their headers name the actor.
inline constexpr transport::channel actor_channel{1};
/// Bundles between drains.
inline constexpr transport::channel transfer_channel{2};
/// Measuring links; two channels.
inline constexpr transport::channel probe_channel{600};
/// All-reduce of a stage's replicas: a few channels for each stage.
constexpr transport::channel all_reduce_channel(int stage) {
  return transport::channel{std::uint64_t{1000} + 8 * static_cast<std::uint64_t>(stage)};
}

/// Notes between coordinators, on the control plane.
inline constexpr std::string_view note_topic = "coordinators";

} // namespace penstock::actors
