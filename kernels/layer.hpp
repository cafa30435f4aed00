// The interface of a layer: stateless mathematics with named parameters. Custom layers implement the same one.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/initializer.hpp"
#include "kernels/random_key.hpp"

#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

class outcome;

/// Shape and type of a tensor between layers; dims[0] is the batch.
struct tensor_spec {
  dtype type = dtype::f32;
  shape dims;
};

struct parameter_spec {
  /// "weight", "bias"; the global name has the layer's in front, "features.0.weight", or is the layer's where this is
  /// empty.
  std::string name;
  shape dims;
  initializer init;
  bool norm_or_bias = false; // left out of weight decay by --no-decay-norm-bias
  float rate = 1;            ///< factor on the learning rate: Caffe's lr_mult
};

/// State that is not a weight: never versioned, never touched by evaluation (BatchNorm's running statistics).
struct state_spec {
  std::string name;
  dtype type = dtype::f32;
  shape dims;
  float initial = 0;
  float least = -std::numeric_limits<float>::infinity(); ///< what lies below is refused wherever it comes from
};

enum class phase : std::uint8_t { training, evaluation };

/// What one call of one layer on one micro-batch may use.
struct run_context {
  backend& ops;
  phase mode = phase::training;
  random_key random;
  std::span<tensor> state;                    ///< plain, in the order of states(); written only when update_state
  bool update_state = true;                   ///< false when recomputing
  std::span<const tensor> carried{};          ///< in the order of carried(), [B, ...] each; none, or no tensor: zeros
  std::vector<tensor>* carried_out = nullptr; ///< takes what the next minibatch is handed; null: nobody wants it
  std::vector<bool> need_input_gradient;      ///< backward: which input gradients are wanted
  bool need_weight_gradient = true;
  std::string_view name{};  ///< the layer's, global
  outcome* tells = nullptr; ///< takes device scalars that may refuse the data (kernels/outcome.hpp); may be null
};

struct forward_result {
  std::vector<tensor> outputs;
  std::vector<tensor> saved; ///< what backward needs; empty in evaluation
};

struct backward_result {
  std::vector<tensor> input_gradients;  ///< "none" where not wanted or not differentiable
  std::vector<tensor> weight_gradients; ///< one per parameter, in the parameter's own format
};

/// Of a backward in two parts: the one that a stage before waits for.
struct backward_input_result {
  std::vector<tensor> input_gradients; ///< as of the whole backward
  std::vector<tensor> kept;            ///< what backward_weight needs
};

class layer;
using layer_ptr = std::shared_ptr<const layer>;

/// Stateless; shared by every replica and thread. Gradients of activations are assigned, never added: who needs a sum
/// adds. Rank-4 f32 tensors come and go in the backend's activation format; `ops.to_plain` gives row-major bytes.
class layer {
public:
  virtual ~layer() = default;
  /// "conv2d", "relu": for listings and messages.
  virtual std::string_view kind() const = 0;
  /// Output specs. Throws usage_error with what was found and what was wanted ("input 1x1 is smaller than kernel 3x3").
  virtual std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const = 0;
  virtual std::vector<parameter_spec> parameters(std::span<const tensor_spec> inputs) const;
  virtual std::vector<state_spec> states(std::span<const tensor_spec> inputs) const;
  /// What the layer hands from one minibatch to the next (a recurrent layer's h and c), by batch column: shapes without
  /// the batch. Forward only, without a gradient, zeros at the start of an epoch (DESIGN section 3).
  virtual std::vector<state_spec> carried(std::span<const tensor_spec> inputs) const;
  /// In which format the backend keeps a parameter (and its gradient and optimizer state); null for plain.
  virtual format_ptr parameter_format(backend& ops, std::size_t parameter, std::span<const tensor_spec> inputs) const;
  /// A layer that computes this one and then `next` with the same bits in one go, or null. `next` has this one's only
  /// output as its only input, nobody else reads that, and it has neither parameters nor states. The fused layer has
  /// this one's inputs, name, parameters (in the same formats), states and random numbers, and the outputs of `next`.
  virtual layer_ptr try_fuse(const layer& next) const;

  /// `inputs` may be consumed (moved from): the caller passes the last handle where nobody else needs the value, so
  /// that an in-place operation sees a unique tensor.
  virtual forward_result forward(run_context& context, std::span<tensor> inputs,
                                 std::span<const tensor> weights) const = 0;
  /// `saved` is what forward returned, `output_gradients` may be consumed (moved from).
  virtual backward_result backward(run_context& context, std::span<tensor> output_gradients,
                                   std::span<const tensor> weights, std::span<const tensor> saved) const = 0;

  /// The same backward in two parts, with the same bits: first the input gradients and what the weight gradients still
  /// need, which should be no more than that, since it stays in memory until then. A layer that has only `backward` is
  /// run whole in the first part, and its weight gradients are what is kept.
  virtual backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                               std::span<const tensor> weights, std::span<const tensor> saved) const;
  /// The weight gradients, one per parameter. `kept` is what backward_input left, and may be consumed (moved from).
  virtual std::vector<tensor> backward_weight(run_context& context, std::span<const tensor> weights,
                                              std::span<tensor> kept) const;

  /// True where finite inputs and weights give finite results, overflow aside. What other layers return is looked
  /// through at each call of a run, and a NaN or infinity ends the run with the layer's name.
  virtual bool keeps_finite() const { return false; }
  /// Samples that a micro-batch must have at least for `forward` in training, for inputs as given with batch 1: a
  /// normalisation over the batch cannot work on one value.
  virtual std::int64_t least_training_samples(std::span<const tensor_spec> inputs) const;

  /// Floating-point operations of the forward pass (a multiply-add counts 2), for reports; 0 where negligible.
  virtual double forward_flops(std::span<const tensor_spec> inputs) const;
};

} // namespace penstock
