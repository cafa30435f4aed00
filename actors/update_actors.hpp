// The two actors that turn gradients into weight versions: one replica group and one optimizer a stage.
#pragma once

#include "actors/actor_context.hpp"
#include "actors/stage_actor.hpp"

namespace penstock::actors {

/// Gathers the gradient shares of a stage's replicas for each update and sums them in replica order. Takes
/// gradient_share_msg from the replicas; sends gradient_sum_msg to the optimizer.
caf::actor spawn_replica_group(caf::actor_system& system, context_ptr context, int stage, caf::actor optimizer);

/// The same where the stage's replicas are on several ranks: an all-reduce among them, in buckets that start while the
/// backward that makes them still runs. Takes gradient_bucket_msg too, and begin_segment_msg from the coordinator.
caf::actor spawn_rank_group(caf::actor_system& system, context_ptr context, int stage, caf::actor optimizer);

/// Applies updates in order and sends each new version to the replicas. Takes begin_segment_msg, truncate_segment_msg
/// and clip_msg from rank 0's coordinator, gradient_sum_msg from the replica group; reports part_done_msg.
caf::actor spawn_optimizer(caf::actor_system& system, context_ptr context, int stage);

/// Sent to the optimizer once.
struct connect_optimizer_msg {
  std::vector<stage_actor> replicas; ///< on this rank
  caf::actor clipper;                ///< takes norm_msg
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::connect_optimizer_msg)
