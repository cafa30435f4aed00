// What a stage's optimizer decides: which update is next, whether it may write in place, who gets the new version. No
// actor, thread or clock.
#pragma once

#include "actors/optimizer/gradient_reducer.hpp"
#include "actors/optimizer/update_order.hpp"
#include "actors/run/stretch.hpp"
#include "kernels/safetensors.hpp"

namespace penstock::actors {

/// What a stage has learnt: its optimizer owns it, and nobody else reads or writes it.
struct stage_weights {
  weights_ptr newest;
  std::vector<optimizer_state> optimizer_states; ///< by parameter
  named_tensors first_gradients;                 ///< plain, of the run's first update, when asked for
};

/// Of a tensor that several stages use: its gradients there, one for each use, in reverse topological order.
struct uses_across {
  std::size_t parameter = 0; ///< of this stage: the first use here
  std::vector<tensor> gradients;
};

/// One update on its way. Whoever computes it fills in `made` and puts it into `owned`.
struct update_work {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  update_order order;
  std::vector<uses_across> across; ///< gradients of tensors that other stages use too
  gradients_ptr gradients;         ///< the replicas' sum, in the order of the stream
  std::vector<double> squares;     ///< by parameter, where the gradient is clipped
  bool in_place = false;           ///< nothing that is posted from now on reads the version before
  std::shared_ptr<stage_weights> owned;
  weights_ptr made; ///< the new version, for the replicas
  outcome tells;    ///< of the squares or of the update, when the work is complete
  event_ptr begin;
  event_ptr end;
};
using update_work_ptr = std::shared_ptr<update_work>;

/// What an evaluation reads: the newest weights, or their averages under the same version.
weights_ptr weights_in_use(const stage_weights& owned, const optimizer& rule);

struct send_weights {
  weights_msg message; ///< to each replica of the stage on this rank
};
/// On the update's stream: when what it was given before is done, the gradients of tensors that other stages use too
/// come back to optimizer_core::shared.
struct share_uses {
  update_work_ptr job;
  tie_msg message; ///< filled in where the stream gets there
};
struct send_uses {
  tie_msg message; ///< to the optimizers of the other stages that use one of the tensors
};
struct compute_squares {
  update_work_ptr job; ///< on the update's stream; comes back to optimizer_core::squared
};
struct send_norm {
  norm_msg message; ///< to whoever forms the global norm
};
/// On the update's stream. The new version, as weights_msg of version group + 1, goes at once to the first replica
/// here, whose stream that is: its next work is posted behind. To the others it goes when it is made. Then the job
/// comes back to optimizer_core::updated.
struct compute_update_of {
  update_work_ptr job;
};
struct updates_are_done {};
using optimizer_effect = std::variant<sum_replicas, reduce_bucket, forget_reductions_before, send_weights, share_uses,
                                      send_uses, compute_squares, send_norm, compute_update_of, updates_are_done>;
using optimizer_effects = std::vector<optimizer_effect>;

/// Coordinator to an optimizer: an evaluation begins; its replicas need the weights.
struct lend_weights_msg {
  std::int64_t stretch = 0;
};

/// A tensor that this stage uses, and others too.
struct shared_tensor {
  std::string name;
  std::vector<int> stages;               ///< all that use it, the last one first
  std::vector<std::size_t> parameters{}; ///< this stage's uses, the last one first: indices in segment::parameters()
  bool counts_here = true;               ///< in the norm over all stages: in the first of them
};

struct optimizer_place {
  int stage = 0;
  bool forms_norm = true; ///< it speaks for the stage; optimizers on the stage's other ranks have the same gradients
  std::vector<shared_tensor> shared{};
};

/// Owns the stage's newest weights and its optimizer state on this rank. Updates go onto the stream in order, each as
/// soon as its sum is there or will be in the stream's order; the stream may still be at an earlier one.
class optimizer_core {
public:
  optimizer_core(optimizer_place place, const run_options& options, stage_weights owned,
                 std::unique_ptr<gradient_reducer> reducer);

  [[nodiscard]] optimizer_effects on(const begin_training_msg& m);
  [[nodiscard]] optimizer_effects on(const end_after_msg& m);
  [[nodiscard]] optimizer_effects on(const lend_weights_msg& m);
  [[nodiscard]] optimizer_effects on(gradient_share_msg m);
  [[nodiscard]] optimizer_effects on(gradient_bucket_msg m);
  [[nodiscard]] optimizer_effects on(reduced_msg m);
  /// The norm goes to whoever forms the global one, or clips the stage's own gradients.
  /// This stage's part of tensors that are shared; the update waits for the others'.
  [[nodiscard]] optimizer_effects shared(tie_msg mine);
  [[nodiscard]] optimizer_effects on(tie_msg m);
  [[nodiscard]] optimizer_effects squared(const update_work& job);
  [[nodiscard]] optimizer_effects on(const clip_msg& m);
  [[nodiscard]] optimizer_effects updated(const update_work& job);

  std::string describe() const;
  /// For a copy, at a drain. Belongs to an update's stream while one is being computed.
  const std::shared_ptr<stage_weights>& owned() const { return owned_; }

private:
  void take(gradient_reducer::effects effects, optimizer_effects& out) const;
  void pump(optimizer_effects& out);
  void begin_update(gradient_sum sum, optimizer_effects& out);
  bool clips_stage() const { return options_.clip_stage_norm > 0; }
  void clip_and_apply(update_work_ptr job, optimizer_effects& out);
  void take_shared(optimizer_effects& out);
  void apply_clipped(optimizer_effects& out);
  void finish_when_done(optimizer_effects& out);
  void plan_for(std::int64_t minibatches);

  optimizer_place place_;
  std::string who_;
  const run_options& options_;
  std::shared_ptr<stage_weights> owned_;
  std::unique_ptr<gradient_reducer> reducer_;
  std::unique_ptr<optimizer> rule_;
  stretch_ptr run_;
  std::int64_t first_version_ = 0;                      // at the drain
  std::int64_t planned_ = 0;                            // updates of the stretch
  std::int64_t begun_ = 0;                              // of them
  std::int64_t done_ = 0;                               // of those
  update_work_ptr unshared_;                            // waits for gradients of other stages, and the next ones for it
  std::map<std::int64_t, std::map<int, tie_msg>> ties_; // by update and stage; others may be ahead of this one
  update_work_ptr unclipped_;                           // waits for the norm, and the next ones for it
  std::map<std::int64_t, float> factors_;               // by update; the stage's other ranks may be ahead of this one
  bool is_done_ = true;                                 // and has said so
};

} // namespace penstock::actors
