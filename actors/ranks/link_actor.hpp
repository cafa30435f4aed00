// Stands for an actor of another process: whoever sends to it does not know the difference.
#pragma once

#include "actors/ranks/wire.hpp"

#include <caf/actor.hpp>

namespace penstock::actors {

struct actor_context;

/// A handle that encodes the messages of wire.hpp on the sender's thread and posts them to `rank`, where the gate hands
/// them to the actor at `to`. Other messages are a fault, reported as the run's failure.
caf::actor make_link(caf::actor_system& system, std::shared_ptr<actor_context> context, int rank, address to);

} // namespace penstock::actors
