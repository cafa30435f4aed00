// Spawns the actors of a plan that live on this rank, puts links in place of the others, and connects them.
#pragma once

#include "actors/ranks/gate.hpp"
#include "actors/source/source_actor.hpp"

#include <functional>
#include <map>

namespace penstock::actors {

/// The actors of a run as this rank sees them.
struct wired_actors {
  std::vector<std::vector<worker_actor>> stages; ///< their workers by stage and replica; links where they are elsewhere
  std::vector<caf::actor> local_workers;
  std::vector<caf::actor> optimizers;     ///< by stage; empty handles for stages that are elsewhere
  std::vector<caf::actor> all_optimizers; ///< on rank 0: of every rank
  std::vector<caf::actor> layer_actors;
  std::vector<caf::actor> loaders;
  caf::actor source;  ///< where this rank hosts a replica of stage 0
  caf::actor metrics; ///< on rank 0
  caf::actor clipper; ///< takes norm_msg: rank 0's coordinator
  std::map<caf::actor_addr, std::string> names;

  /// Everything on this rank.
  std::vector<caf::actor> everyone() const;
  /// "stage 1 replica 0"; empty for an actor that is not of this run.
  std::string name_of(const caf::actor_addr& who) const;
};

/// `coordinator` is this rank's; `incoming` is null in a single process; `made` is called with every actor here as soon
/// as there is one.
wired_actors wire_actors(caf::actor_system& system, const context_ptr& context, const planner::schedule& dealing,
                         const caf::actor& coordinator, gate* incoming,
                         const std::function<void(const caf::actor&)>& made);

} // namespace penstock::actors
