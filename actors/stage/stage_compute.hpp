// What a stage replica computes for one micro-batch. Called on the replica's stream; shared by both executors.
#pragma once

#include "actors/optimizer/update_order.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/stage/stage_work.hpp"

namespace penstock::actors {

/// Shared, since the device may get to a layer when whoever asked for it has gone on.
using layer_listener = std::shared_ptr<const std::function<void(int layer)>>;

// Operations are asked for here; what they decide is in `tells` when the work is complete: losses, numbers that are
// none, how long it took. What it refers to must be there until it is settled.

/// Training forward: fills `record` but for its weights, which the caller captured. `inputs`: the arguments of
/// segment::forward. What the stage's losses sum goes to `metrics`. What the minibatch before left is taken from
/// `carried`, and what this one leaves is put there. Returns outputs in the order of segment::outputs(); "none" for an
/// empty micro-batch.
std::vector<tensor> compute_forward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                    std::span<tensor> states, carried_columns& carried, std::vector<tensor> inputs,
                                    microbatch_record& record, loss_metrics& metrics, outcome& tells);

/// Backward with the weights given (the captured ones, but under pipedream-naive). Weight gradients are added into
/// `gradients`. Returns input gradients in the order of segment::inputs(). Where the stage recomputes, its forward runs
/// again first, with the captured weights and the same random numbers; BatchNorm's statistics stay as they are.
/// `layer_done` is called with each layer whose part of the gradients is there, last layer first.
std::vector<tensor> compute_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::span<tensor> states, std::vector<tensor> output_gradients,
                                     const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                                     outcome& tells, const layer_listener& layer_done = {});

/// The same in two parts: the input gradients, and what the record then keeps for the weights' part in place of its
/// activations; then the weight gradients.
std::vector<tensor> compute_backward_input(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                           std::span<tensor> states, std::vector<tensor> output_gradients,
                                           const weight_set& weights, microbatch_record& record, outcome& tells);
void compute_backward_weight(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                             const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                             outcome& tells, const layer_listener& layer_done = {});

/// Evaluation forward: given states, nothing kept; `carried` is the evaluation's. The last stage's outputs, the model's
/// results, go to `results` in the host's memory.
std::vector<tensor> compute_evaluation(backend& ops, const pipeline& p, const stage_unit& s,
                                       const microbatch_info& info, std::vector<tensor> inputs,
                                       const weight_set& weights, std::span<tensor> states, carried_columns& carried,
                                       loss_metrics& metrics, std::vector<tensor>& results, outcome& tells);

/// Adds the replicas' gradients into the first that has any, in replica order.
std::vector<tensor> sum_gradients(backend& ops, std::vector<std::vector<tensor>> replicas);
/// The same; they are taken out of there.
std::vector<tensor> sum_gradients(backend& ops, std::span<const gradients_ptr> replicas);

/// Adds the gradients of the uses of each tensor, in reverse topological order, and leaves the sum at its first use
/// here, "none" at the others (DESIGN section 3). Those of uses_across are not written.
void add_uses(backend& ops, const segment& layers, std::vector<tensor>& gradients, std::vector<uses_across>& across);

/// Squares of each parameter's gradient, in parameter order, when settled; "none" counts 0.
void gradient_squares(backend& ops, std::span<const tensor> gradients, std::vector<double>& squares, outcome& tells);
/// Makes the stage's next weight version in `owned`: in place, which nobody who reads the newest may notice, or into
/// recycled buffers. `made`, where it is given, becomes that version. `tells` throws error when a weight is no longer
/// finite, unless options.stop_on_nonfinite is off.
void compute_update(backend& ops, const pipeline& p, stage_unit& s, const run_options& options,
                    const update_order& order, std::span<const tensor> gradients, stage_weights& owned, bool in_place,
                    outcome& tells, weights_ptr made = nullptr);

/// One job of a stage replica: fills in its results, and fetches them. `layer_done` as for compute_backward.
void compute_job(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r, stage_work& job,
                 const layer_listener& layer_done = {});

} // namespace penstock::actors
