// The source admits micro-batches while it holds credits; loader actors decode samples ahead of it. Each rank that
// hosts replicas of stage 0 has one, which admits what is dealt to those.
#pragma once

#include "actors/run/actor_context.hpp"
#include "actors/stage/worker_actor.hpp"

namespace penstock::actors {

/// Sent to the source once.
struct connect_source_msg {
  neighbour_side first;                             ///< activations go there
  std::map<int, std::vector<worker_actor>> readers; ///< of inputs, by stage
  std::function<int(int, const message_key&)> deal; ///< to which replica of a stage
  std::vector<caf::actor> loaders;
};

/// Takes begin_training_msg, evaluate_data_msg, pause_source_msg and end_after_msg from the coordinator, credit_msg
/// from stage 0 (evaluating: from the last stage), load_reply_msg from the loaders.
caf::actor spawn_source(caf::actor_system& system, context_ptr context, source_place place);

/// A detached actor that loads micro-batches, one request at a time.
caf::actor spawn_loader(caf::actor_system& system, context_ptr context, const caf::actor& source);

/// Gathers losses into step events, and evaluation losses into one total for the coordinator; on a thread of its own,
/// since observers write to terminals and files. Takes begin_training_msg, evaluate_losses_msg and end_after_msg from
/// the coordinator and loss_msg from the last stage.
caf::actor spawn_metrics(caf::actor_system& system, context_ptr context);

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::connect_source_msg)
