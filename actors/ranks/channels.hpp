// Who listens on which channel of the data plane.
#pragma once

#include "transport/endpoint.hpp"

#include <string>

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

/// The same of a plan epoch: what is late from one that is over finds nobody.
constexpr transport::channel in_epoch(transport::channel c, std::int64_t plan_epoch) {
  return transport::channel{static_cast<std::uint64_t>(c) + (static_cast<std::uint64_t>(plan_epoch) << 32)};
}

/// Notes between the coordinators of a plan epoch, on the control plane.
inline std::string note_topic(std::int64_t plan_epoch) {
  return "coordinators" + (plan_epoch == 0 ? std::string() : " of plan epoch " + std::to_string(plan_epoch));
}

} // namespace penstock::actors
