// The actor of a worker, which hosts a replica of one stage or of several: a shell round its core.
#pragma once

#include "actors/layer_actor.hpp"
#include "actors/run/actor_context.hpp"

namespace penstock::actors {

/// Whom one of a worker's stages talks to; sent once for each, before anything else.
struct connect_stage_msg {
  int stage = 0;
  neighbour_side previous;                           ///< empty for the first stage
  neighbour_side next;                               ///< empty for the last
  std::vector<caf::actor> sources;                   ///< take credits; by replica of stage 0
  std::function<int(const message_key&)> deal_first; ///< the replica of stage 0 that a message went through
  caf::actor metrics;                                ///< takes losses
  caf::actor optimizer;                              ///< takes gradients
};

using worker_actor =
    neighbour_actor::extend<caf::reacts_to<connect_stage_msg>,
                            caf::reacts_to<inputs_msg>,           // from the source, to a stage that reads inputs
                            caf::reacts_to<begin_training_msg>,   // from the coordinator
                            caf::reacts_to<end_after_msg>,        // from the coordinator
                            caf::reacts_to<begin_evaluation_msg>, // from the coordinator
                            caf::reacts_to<weights_msg>,          // from its stages' optimizers
                            caf::reacts_to<computed_msg>,         // from its own stream
                            caf::reacts_to<collect_msg>,          // from the coordinator
                            caf::reacts_to<describe_wait_msg>>;   // from the coordinator

/// What a worker starts with, of each stage that it hosts.
struct hosted_stage {
  std::vector<tensor> states;                 ///< BatchNorm statistics, which it owns from here on
  std::vector<tensor> carried;                ///< what minibatches handed on so far, of all columns; empty: nothing
  std::shared_ptr<const bucket_cuts> buckets; ///< of a stage whose replicas are on several ranks; else null
};

/// Spawns a worker. It computes on its stages' streams, which take turns on one thread, and never blocks. `stages`: as
/// the place has them.
worker_actor spawn_worker(caf::actor_system& system, context_ptr context, worker_place place,
                          std::vector<hosted_stage> stages);

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::connect_stage_msg)
