// The coordinator starts this rank's part of a plan, and owns start, drain, evaluation, failure and the stall watchdog:
// a shell round its core.
#pragma once

#include "actors/ranks/gate.hpp"
#include "actors/run/actor_context.hpp"
#include "actors/run/note.hpp"

namespace penstock::actors {

/// From the executor; each is answered to `reply_to` with stretch_done_msg, evaluated_msg or failure_msg.
struct train_msg {
  stretch_ptr run;
  caf::actor reply_to;
};
struct start_evaluation_msg {
  const dataset* data = nullptr;
  std::int64_t batch = 0;
  std::vector<std::vector<tensor>> states; ///< BatchNorm statistics by stage; of the stages on this rank
  caf::actor reply_to;
};
struct stretch_done_msg {
  std::int64_t minibatches = 0;
};
struct start_run_msg {
  context_ptr context;
  planner::schedule dealing;      ///< how micro-batches are dealt
  std::shared_ptr<gate> incoming; ///< null in a single process
};

caf::actor spawn_coordinator(caf::actor_system& system);

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::train_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::start_evaluation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::stretch_done_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::start_run_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::note)
