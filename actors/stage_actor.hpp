// The actor of one stage replica: a shell round its core.
#pragma once

#include "actors/actor_context.hpp"
#include "actors/layer_actor.hpp"

namespace penstock::actors {

/// Whom a stage replica talks to; sent once, before anything else.
struct connect_stage_msg {
  neighbour_side previous;                           ///< empty for the first stage
  neighbour_side next;                               ///< empty for the last
  std::vector<caf::actor> sources;                   ///< take credits; by replica of stage 0
  std::function<int(const message_key&)> deal_first; ///< the replica of stage 0 that a message went through
  caf::actor metrics;                                ///< takes losses
  caf::actor optimizer;                              ///< takes gradients
};

using stage_actor = neighbour_actor::extend<caf::reacts_to<connect_stage_msg>,
                                            caf::reacts_to<labels_msg>,           // from the source, to the last stage
                                            caf::reacts_to<begin_training_msg>,   // from the coordinator
                                            caf::reacts_to<end_after_msg>,        // from the coordinator
                                            caf::reacts_to<begin_evaluation_msg>, // from the coordinator
                                            caf::reacts_to<weights_msg>,          // from the stage's optimizer
                                            caf::reacts_to<computed_msg>,         // from its own stream
                                            caf::reacts_to<collect_msg>,          // from the coordinator
                                            caf::reacts_to<describe_wait_msg>>;   // from the coordinator

/// Spawns a replica that owns those BatchNorm statistics. It computes on the replica's stream and never blocks.
/// `buckets`: of a stage whose replicas are on several ranks; else null.
stage_actor spawn_stage(caf::actor_system& system, context_ptr context, const stage_place& place,
                        std::vector<tensor> states, std::shared_ptr<const bucket_plan> buckets);

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::connect_stage_msg)
