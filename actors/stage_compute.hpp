// What a stage replica computes for one micro-batch. Called on the replica's stream; shared by both executors.
#pragma once

#include "actors/pipeline.hpp"

namespace penstock::actors {

/// Says which micro-batch, in the run's own ids.
struct microbatch_id {
  std::uint64_t seed = 0;
  std::int64_t minibatch = 0;
  std::int32_t microbatch = 0;
  std::int64_t samples = 0;           ///< of the micro-batch; 0 computes nothing
  std::int64_t minibatch_samples = 0; ///< only the last stage needs it
};

/// What a forward leaves for its backward on one replica: the capture of the weights is what keeps a version alive.
struct microbatch_record {
  microbatch_id id;
  weights_ptr weights; ///< the version that the forward used
  segment_activations activations;
  std::vector<tensor> inputs;                ///< instead of activations where the stage recomputes
  softmax_cross_entropy::forward_value loss; ///< last stage
};

struct stage_forward {
  std::vector<tensor> outputs; ///< in the order of segment::outputs(); "none" for an empty micro-batch
  loss_metrics metrics;        ///< last stage
};

/// Training forward: fills `record` but for its weights, which the caller captured. `labels` only on the last stage.
stage_forward compute_forward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                              std::vector<tensor> inputs, const tensor& labels, microbatch_record& record);

/// Backward with the weights given (the captured ones, but under pipedream-naive). Weight gradients are added into
/// `gradients`. Returns input gradients in the order of segment::inputs(). Where the stage recomputes, its forward runs
/// again first, with the captured weights and the same random numbers; BatchNorm's statistics stay as they are.
/// `layer_done` is called with each layer whose part of the gradients has been added, last layer first.
std::vector<tensor> compute_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::vector<tensor> output_gradients, const weight_set& weights,
                                     microbatch_record& record, std::span<tensor> gradients,
                                     const std::function<void(int)>& layer_done = {});

/// Evaluation forward: given states, nothing kept.
stage_forward compute_evaluation(backend& ops, const pipeline& p, const stage_unit& s, std::vector<tensor> inputs,
                                 const tensor& labels, const weight_set& weights, std::span<tensor> states);

/// How one update is made (DESIGN section 3, Replicas).
struct update_order {
  std::int64_t first_minibatch = 0; ///< its learning rate counts
  float learning_rate = 0;
  float gradient_scale = 1;
  bool keep_gradients = false; ///< the run's first update, for --save-gradients
};
update_order order_update(const run_options& options, const planner::schedule& s, int stage, std::int64_t group,
                          std::int64_t first_minibatch_of_segment, std::int64_t contributions);

/// Adds the replicas' gradients into the first that has any, in replica order.
std::vector<tensor> sum_gradients(backend& ops, std::vector<std::vector<tensor>> replicas);

/// Squares of each parameter's gradient, in parameter order; "none" counts 0.
std::vector<double> gradient_squares(backend& ops, std::span<const tensor> gradients);
/// Factor that clips a gradient of that norm: min(1, clip / (norm + 1e-6)), as PyTorch.
float clip_factor(double norm, double clip);

/// Makes the stage's next weight version: in place when nobody else holds the newest, else into recycled buffers.
/// Throws error when a weight is no longer finite, unless options.stop_on_nonfinite is off.
void compute_update(backend& ops, const pipeline& p, stage_unit& s, const run_options& options,
                    const update_order& order, std::span<const tensor> gradients);

} // namespace penstock::actors
