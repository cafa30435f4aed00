// One piece of work of a stage replica: what goes onto its stream, and what comes back.
#pragma once

#include "actors/stage/carried_columns.hpp"
#include "actors/stage/messages.hpp"
#include "kernels/segment.hpp"

namespace penstock::actors {

/// Says which micro-batch, in the run's own ids.
struct microbatch_id {
  std::uint64_t seed = 0;
  std::int64_t minibatch = 0;
  std::int32_t microbatch = 0;
  microbatch_info info;
};

/// What a forward leaves for its backward on one replica.
struct microbatch_record {
  microbatch_id id;
  weights_ptr weights; ///< the version that the forward used
  segment_activations activations;
  segment_weight_work weight_work; ///< instead of them, between the two parts of a split backward
  std::vector<tensor> kept;        ///< instead of activations where the stage recomputes: what that begins with
  std::vector<tensor> carried;     ///< likewise: what the minibatch before left
  segment_losses losses;
};

/// The core fills in what is read; whoever computes fills in the results and hands the job back. Each field has one
/// owner at a time.
struct stage_work {
  enum class kind : std::uint8_t { forward, backward, backward_input, backward_weight, evaluate } what = kind::forward;
  message_key key;
  std::int64_t version = 0; ///< absolute, read
  microbatch_info info;
  std::vector<tensor> inputs; ///< activations and the inputs that are fed here, or output gradients
  std::shared_ptr<microbatch_record> record;
  weights_ptr weights;                         ///< to read: of a backward and of an evaluation
  bool lets_go_of_weights = false;             ///< the record need not keep them for the backward
  std::shared_ptr<std::vector<tensor>> states; ///< BatchNorm statistics
  std::shared_ptr<carried_columns> carried;    ///< of a forward and of an evaluation
  gradients_ptr gradients;                     ///< a backward, or its weights' part, adds to it
  std::int64_t completes_group = -1;           ///< the update whose last gradients these are; its buckets may go

  // results: what the stream asked the device for, and when it is complete, settled
  std::vector<tensor> outputs;
  loss_metrics metrics;
  std::vector<tensor> results; ///< evaluating, on the last stage: in the host's memory
  outcome tells;
  event_ptr begin;
  event_ptr end;

  /// Lets go of all that was only read, so that nothing is held while the job travels back.
  void drop_inputs() {
    inputs.clear();
    record.reset();
    weights.reset();
    states.reset();
    carried.reset();
    gradients.reset();
  }
};

} // namespace penstock::actors
