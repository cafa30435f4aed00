// The actor that turns a stage's gradients into weight versions: a shell round its core.
#pragma once

#include "actors/run/actor_context.hpp"
#include "actors/stage/worker_actor.hpp"

namespace penstock::actors {

/// Owns the stage's weights and optimizer state on this rank. Takes begin_training_msg, end_after_msg and
/// lend_weights_msg from the coordinator, gradient_share_msg and, where the stage's replicas are on several ranks,
/// gradient_bucket_msg from the replicas, clip_msg from rank 0's coordinator; reports part_done_msg. `buckets`: of a
/// stage whose replicas are on several ranks; else null.
caf::actor spawn_optimizer(caf::actor_system& system, context_ptr context, int stage, stage_weights owned,
                           std::shared_ptr<const bucket_cuts> buckets);

/// Sent to the optimizer once.
struct connect_optimizer_msg {
  std::vector<worker_actor> replicas; ///< on this rank
  caf::actor clipper;                 ///< takes norm_msg
  std::vector<caf::actor> sharers;    ///< take tie_msg: of the other stages that use one of this one's tensors
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::connect_optimizer_msg)
