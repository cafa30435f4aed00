// Messages inside one process, among the runtime's own actors: credits, versions, gradients, losses, start and stop.
#pragma once

#include "actors/executor.hpp"
#include "actors/messages.hpp"
#include "actors/microbatch_loader.hpp"
#include "actors/stage_compute.hpp"

namespace penstock::actors {

struct stage_job; // work on a replica's stream, actors/stage_job.hpp

/// Coordinator to stages, replica groups, optimizers and, last, the source: a stretch of training starts.
struct begin_segment_msg {
  segment_run_ptr run;
  weights_ptr weights; ///< the stage's newest version; only to stages
};
/// Coordinator to the same: the stretch ends earlier than planned. Nothing beyond it was admitted. It sets a source
/// going again that was told to stop admitting.
struct truncate_segment_msg {
  segment_run_ptr run;
};
/// Coordinator to the source and the metrics actor: an evaluation is given up after so many batches.
struct truncate_evaluation_msg {
  std::int64_t segment = 0;
  std::int64_t batches = 0;
};
/// Coordinator to the source: admit no further minibatch. It answers the coordinator with admitted_msg.
struct stop_admitting_msg {};
struct admitted_msg {
  std::int64_t segment = 0;     ///< it may be over when this arrives
  std::int64_t minibatches = 0; ///< of the segment, the last of them perhaps in part
};

/// Stage 0 (or the last stage, evaluating) to the source that admitted it: one micro-batch left the pipeline.
struct credit_msg {
  message_key key;
};

/// Optimizer to the replicas of its stage: a new version can be read.
struct weights_msg {
  std::int64_t segment = 0;
  std::int64_t version = 0; ///< counted from the drain
  weights_ptr weights;
};
/// A replica's stream to its replica group, while the last backward of the group still runs: these gradients are final.
struct gradient_bucket_msg {
  std::int64_t segment = 0;
  std::int64_t group = 0;
  int replica = 0;
  std::size_t bucket = 0;        ///< of the stage's bucket_plan
  std::vector<tensor> gradients; ///< of the bucket's parameters
};
/// Replica to its replica group: `update group` stands at the head of its list.
struct gradient_share_msg {
  std::int64_t segment = 0;
  std::int64_t group = 0;
  int replica = 0;
  std::int64_t minibatches = 0; ///< it contributes; pipedream family: 0 or 1
  std::vector<tensor> gradients;
};
/// Replica group to the optimizer: the replicas' sum.
struct gradient_sum_msg {
  std::int64_t group = 0;
  std::int64_t minibatches = 0;
  std::vector<tensor> gradients;
};

/// Optimizers and coordinator: clipping by the global norm.
struct norm_msg {
  std::int64_t segment = 0;
  int stage = 0;
  std::int64_t group = 0;
  std::vector<double> squares;
};
struct clip_msg {
  std::int64_t segment = 0;
  std::int64_t group = 0;
  float factor = 1;
};

/// Last stage to the metrics actor.
struct loss_msg {
  message_key key;
  loss_metrics metrics;
};

/// Coordinator to stages: evaluation starts; weights and mean states to use.
struct begin_evaluation_msg {
  std::int64_t segment = 0;
  weights_ptr weights;
  std::vector<tensor> states;
};
/// Coordinator to the source and the metrics actor.
struct evaluate_msg {
  std::int64_t segment = 0;
  const dataset* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t credit = 1;
};
struct evaluated_msg {
  loss_metrics total;
  bool is_complete = true;
};

/// To the coordinator: this part has done all that the segment asks of it.
struct part_done_msg {
  std::string who;
};
/// To the coordinator: the first one ends the run.
struct failure_msg {
  std::string who;
  std::string what;
};

/// The coordinator asks why nothing moves.
struct describe_wait_msg {};
struct wait_description_msg {
  std::string text;
};
struct tick_msg {};

/// A stream's completion.
struct computed_msg {
  std::shared_ptr<stage_job> job;
  std::exception_ptr failure;
};

/// Loader actors.
struct load_request_msg {
  std::shared_ptr<microbatch_loader> loader;
  message_key key;
};
struct load_reply_msg {
  message_key key;
  loaded_microbatch data;
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::begin_segment_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::truncate_segment_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::truncate_evaluation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::stop_admitting_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::admitted_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::credit_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::weights_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_bucket_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_share_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_sum_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::norm_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::clip_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::loss_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::begin_evaluation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::evaluate_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::evaluated_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::part_done_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::failure_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::describe_wait_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::wait_description_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::tick_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::computed_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::load_request_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::load_reply_msg)
