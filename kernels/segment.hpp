// Runs a contiguous range of a model's layers, forward and backward: what one stage computes.
#pragma once

#include "kernels/model.hpp"
#include "kernels/outcome.hpp"

#include <algorithm>
#include <functional>

namespace penstock {

struct segment_parameter {
  std::string name; ///< global
  int layer = 0;    ///< index in the model
  std::size_t index = 0;
  parameter_spec spec;
  std::size_t first_use = 0; ///< of the range's parameters: itself, or the first one that is the same tensor
};

struct segment_state {
  std::string name; ///< global
  int layer = 0;
  state_spec spec;
};

/// What a forward leaves for its backward. Immutable in between; dropped when backward takes it.
struct segment_activations {
  std::vector<std::vector<tensor>> saved; ///< per layer of the range
};

/// What the losses of the range found, by segment::losses(): their sums, and what their gradients need.
using segment_losses = std::vector<loss_function::forward_value>;

/// What the input's part of a backward leaves for the weights' part. Dropped when that takes it.
struct segment_weight_work {
  struct layer_work {
    int layer = 0; ///< index in the model
    std::vector<tensor> kept;
  };
  std::vector<layer_work> layers; ///< those with weights that got a gradient, last layer first
};

enum class layer_pass : std::uint8_t { forward, backward, backward_input, backward_weight };

/// One layer's call, as it has just ended.
struct layer_observation {
  int layer = 0; ///< index in the model
  layer_pass pass = layer_pass::forward;
  event_ptr begin;
  event_ptr end;                     ///< their times are there when the work is complete
  std::span<const tensor> outputs{}; ///< of a forward
  std::span<const tensor> saved{};   ///< what a forward leaves for the layer's backward
};

/// Which micro-batch a call works on, and how.
struct segment_call {
  phase mode = phase::training;
  std::uint64_t seed = 0;
  std::int64_t minibatch = 0; ///< global id
  std::int32_t microbatch = 0;
  microbatch_info info{}; ///< its samples and extents; the counts that losses are divided by
  bool update_state = true;
  /// Takes what recompute() begins with, of a forward; no layer may then write into that. Null: nobody wants it.
  std::vector<tensor>* kept = nullptr;
  /// What the minibatch before left, by segment::carried(); empty, or no tensor: zeros. A backward does not read it.
  std::span<const tensor> carried{};
  std::vector<tensor>* carried_out = nullptr; ///< takes what the next one is handed, in that order; may be null
  /// Of NaN or infinities of layers that do not keep_finite(), and of data that a layer refuses; null: nobody looks.
  outcome* tells = nullptr;
  std::function<void(const layer_observation&)> observe{}; ///< called after each layer has been asked for; may be empty
};

/// Immutable plan of layers [first, last) of a model: fused pairs, last uses, boundary tensors. Shared by replicas.
/// Gradients of a tensor with several consumers are summed in reverse topological order, also across cuts.
///
/// Frozen layers, those before `frozen_until` of the model, compute in training what they compute in an evaluation and
/// keep nothing; they have no gradient, and nothing behind them makes one for them. Losses among them are not computed
/// in training, nor layers that only those need. No layer of theirs is fused with one that is not frozen.
class segment {
public:
  segment(std::shared_ptr<const model> m, int first, int last, int frozen_until = 0);

  const model& whole() const { return *model_; }
  int first() const { return first_; }
  int last() const { return last_; }
  /// The first layer of the range that is not frozen; last() where all are.
  int first_active() const { return std::clamp(frozen_until_, first_, last_); }
  bool is_frozen() const { return first_active() == last_; }
  bool is_frozen(int layer) const { return layer < frozen_until_; } ///< any of the model's
  /// How many of parameters() belong to frozen layers: the first ones.
  std::size_t frozen_parameters() const { return is_frozen() ? parameters_.size() : first_parameter(first_active()); }
  /// Tensors that come from the stage before and go out, in model order; skip connections that only pass through are in
  /// both. The last range puts out the model's results.
  const std::vector<value_id>& inputs() const { return inputs_; }
  const std::vector<value_id>& outputs() const { return outputs_; }
  /// The model's inputs that are read here, which the source feeds.
  const std::vector<value_id>& fed() const { return fed_; }
  /// Indices of the model's losses that are computed here.
  const std::vector<int>& losses() const { return losses_; }
  const std::vector<segment_parameter>& parameters() const { return parameters_; }
  /// Index in parameters() of the first one that belongs to that layer or to a later one.
  std::size_t first_parameter(int layer) const {
    return calls_.at(static_cast<std::size_t>(layer - first_)).first_parameter;
  }
  const std::vector<segment_state>& states() const { return states_; }
  /// What a minibatch hands to the next one, by batch column: shapes without the batch.
  const std::vector<segment_state>& carried() const { return carried_; }
  /// True for a use of a tensor that stands in parameters() before.
  bool is_repeat(std::size_t parameter) const { return parameters_.at(parameter).first_use != parameter; }
  /// The format in which this backend keeps each parameter. Throws error where two uses of one want it in two ways.
  std::vector<format_ptr> parameter_formats(backend& ops) const;
  /// True for a layer of the range that is computed within one before it (layer::try_fuse).
  bool is_absorbed(int layer) const { return calls_.at(static_cast<std::size_t>(layer - first_)).absorbed; }
  /// Whether layers behind `cut`, their losses or whoever reads results need that value in this phase.
  bool is_needed(value_id id, int cut, phase mode) const;
  /// Whether any loss that is trained by has something to count in such a minibatch. Where none has, nothing flows
  /// back.
  bool counts_anything(const microbatch_info& of) const { return model_->counts_anything(of, frozen_until_); }
  /// True when some layer that is not frozen made it or something it was made of, and has parameters.
  bool wants_gradient(value_id id) const { return wants_gradient_.at(static_cast<std::size_t>(id)); }

  /// `arguments`: those of inputs(), then those of fed(), in their order; weights in that of parameters(), states in
  /// that of states(). Fills `keep` unless evaluating, and `losses`; null: no loss is computed. Returns outputs in the
  /// order of outputs(). An evaluation leaves out what model::is_evaluated says, training what only losses of frozen
  /// layers need: such a loss has no sums, such an output is none.
  std::vector<tensor> forward(backend& ops, const segment_call& call, std::vector<tensor> arguments,
                              std::span<const tensor> weights, std::span<tensor> states, segment_activations* keep,
                              segment_losses* losses = nullptr) const;

  /// A training forward once more from what `call.kept` took, for what it leaves: the layers that are not frozen, with
  /// no loss. The call must be that forward's, but without updating states.
  void recompute(backend& ops, const segment_call& call, std::vector<tensor> kept, std::span<const tensor> weights,
                 std::span<tensor> states, segment_activations& keep) const;

  /// Output gradients in the order of outputs() ("none" allowed); what a forward found of the losses adds theirs, each
  /// times its weight over what it is counted by, nothing where that is 0. Weight gradients are put into `gradients`
  /// where it holds none yet, else added. Returns input gradients in the order of inputs(), "none" where not wanted.
  std::vector<tensor> backward(backend& ops, const segment_call& call, std::vector<tensor> output_gradients,
                               std::span<const tensor> weights, segment_activations activations,
                               std::span<tensor> gradients, segment_losses losses = {}) const;

  /// The same backward in two parts, bit for bit: the input gradients and what the weights' part needs, then the weight
  /// gradients, put or added as above. What the weight gradients do not need is let go in the first part.
  std::vector<tensor> backward_input(backend& ops, const segment_call& call, std::vector<tensor> output_gradients,
                                     std::span<const tensor> weights, segment_activations activations,
                                     segment_weight_work& work, segment_losses losses = {}) const;
  void backward_weight(backend& ops, const segment_call& call, std::span<const tensor> weights,
                       segment_weight_work work, std::span<tensor> gradients) const;

private:
  struct layer_call { // one layer of the range
    layer_ptr op;     // the model's, or one that computes later ones too
    int last = 0;     // the layer whose outputs op makes: this one, or the last that is computed within it
    std::size_t first_parameter = 0;
    std::size_t parameter_count = 0;
    std::size_t first_state = 0;
    std::size_t state_count = 0;
    std::size_t first_carried = 0;
    std::size_t carried_count = 0;
    bool absorbed = false;
    bool needs_backward = false;
  };
  void add_names(int layer);
  void fuse();
  int only_reader(int layer) const;
  void find_needed();
  void find_kept();
  bool leaves_out(int layer, phase mode) const;
  bool leaves_out(const model_loss& loss, phase mode) const;
  std::vector<int> uses(phase mode) const;
  const std::vector<value_id>& results_of(int layer) const;
  run_context context_for(backend& ops, const segment_call& call, int layer, std::span<tensor> states) const;
  const layer_call& call_of(int layer) const { return calls_[static_cast<std::size_t>(layer - first_)]; }
  /// Computes one layer's part of a backward and returns its input gradients.
  using layer_backward = std::function<std::vector<tensor>(int layer, run_context& context, std::vector<tensor>& dy,
                                                           std::span<const tensor> saved)>;
  std::vector<tensor> walk_back(backend& ops, const segment_call& call, layer_pass pass,
                                std::vector<tensor> output_gradients, segment_activations activations,
                                segment_losses losses, const layer_backward& run) const;
  /// What a forward has made so far, and how often it is still read.
  struct walked_values {
    std::vector<tensor> of; // by value
    std::vector<int> left;
  };
  void judge(backend& ops, const segment_call& call, int layer, const walked_values& values,
             segment_losses* losses) const;
  void run_layer(backend& ops, const segment_call& call, int layer, walked_values& values,
                 std::span<const tensor> weights, std::span<tensor> states, segment_activations* keep,
                 segment_losses* losses) const;
  class value_gradients;
  void judge_losses(backend& ops, const segment_call& call, int layer, segment_losses& losses,
                    value_gradients& gradients) const;
  void add_gradients(backend& ops, int layer, std::vector<tensor> found, std::span<tensor> gradients) const;
  std::vector<tensor> zero_missing(backend& ops, const segment_call& call, const std::vector<value_id>& ids,
                                   std::vector<tensor> gradients) const;

  std::shared_ptr<const model> model_;
  int first_;
  int last_;
  int frozen_until_;
  std::vector<value_id> inputs_;
  std::vector<value_id> outputs_;
  std::vector<value_id> fed_;
  std::vector<int> losses_;
  std::vector<segment_parameter> parameters_;
  std::vector<segment_state> states_;
  std::vector<segment_state> carried_;
  std::vector<layer_call> calls_;
  std::vector<bool> wants_gradient_; // per value of the model
  std::vector<bool> needed_;         // per layer of the model: in training
  std::vector<value_id> kept_;       // that layers which are not frozen read of what is made before them
};

/// 64-bit FNV-1a: the layer part of a random key.
std::uint64_t name_hash(std::string_view name);

} // namespace penstock
