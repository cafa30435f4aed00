// Messages inside one process, among the runtime's own actors: versions, gradients, completions, start and stop.
#pragma once

#include "actors/messages.hpp"
#include "actors/optimizer/optimizer_core.hpp"
#include "actors/run/executor.hpp"
#include "actors/run/metrics_core.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "actors/source/source_core.hpp"
#include "actors/stage/worker_core.hpp"

#include <caf/actor.hpp>

namespace penstock::actors {

// -- completions of what streams and the transport were given ----------------------

struct computed_msg {
  std::shared_ptr<stage_work> job;
  std::exception_ptr failure;
};
struct shared_msg {
  std::shared_ptr<tie_msg> uses;
  std::exception_ptr failure;
};
struct squared_msg {
  update_work_ptr job;
  std::exception_ptr failure;
};
struct updated_msg {
  update_work_ptr job;
  std::exception_ptr failure;
};
struct summed_msg {
  std::shared_ptr<reduced_msg> sum;
  std::int64_t begun_ns = 0;
  std::exception_ptr failure;
};

// -- to the source and its loaders ---------------------------------------------------

struct pause_source_msg {};
/// The data of an evaluation.
struct evaluate_data_msg {
  admit_evaluation_msg what;
  std::shared_ptr<microbatch_loader> loader;
};
struct load_request_msg {
  std::shared_ptr<microbatch_loader> loader;
  message_key key;
};
struct load_reply_msg {
  message_key key;
  loaded_microbatch data;
};
/// To the metrics, on whose thread users are spoken to.
struct say_msg {
  std::string line;
};
struct evaluate_losses_msg {
  count_evaluation_msg what;
  std::int64_t samples = 0;
};

// -- to the coordinator ----------------------------------------------------------------

struct drain_msg {}; ///< end the stretch with what is admitted
struct admitted_msg {
  std::int64_t stretch = 0;     ///< it may be over when this arrives
  std::int64_t minibatches = 0; ///< of it, the last of them perhaps in part
};
struct part_done_msg {}; ///< this part has done all that the stretch asks of it
struct evaluated_msg {
  loss_metrics total;
  bool is_complete = true;
};
/// The first one ends the run.
struct failure_msg {
  std::string who;
  std::string what;
};
struct wait_description_msg {
  std::string text;
};
struct tick_msg {};

// -- from the coordinator ----------------------------------------------------------------

struct describe_wait_msg {}; ///< why does nothing move?

/// To every owner: copies of what it has, at a drain. Each answers `reply_to` with one collected_msg for each stage.
struct collect_msg {
  copy_of what = copy_of::everything;
  std::shared_ptr<memory_pool> pool; ///< copies come from it
  std::string after;                 ///< of copy_of::nothing: looks for what is not finite, "after 40 steps"
  caf::actor reply_to;
};
struct collected_msg {
  int stage = 0;
  stage_copy copy;
  std::optional<stage_measures> measures; ///< of an optimizer
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::begin_training_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::end_after_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::begin_evaluation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::lend_weights_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::weights_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_share_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_bucket_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::computed_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::shared_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::squared_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::updated_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::summed_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::pause_source_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::evaluate_data_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::say_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::evaluate_losses_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::load_request_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::load_reply_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::drain_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::admitted_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::part_done_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::evaluated_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::failure_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::wait_description_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::tick_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::describe_wait_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::collect_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::collected_msg)
