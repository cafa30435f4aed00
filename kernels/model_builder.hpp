// Builds a model: inputs, layers in topological order, losses.
#pragma once

#include "kernels/model.hpp"

namespace penstock {

/// An axis of an input behind the batch: a number, or an extent that varies.
struct input_axis {
  input_axis(std::int64_t fixed) : size(fixed) {}    // NOLINT(google-explicit-constructor): {3, 224, 224} is an input
  input_axis(extent_id varying) : extent(varying) {} // NOLINT(google-explicit-constructor)
  std::int64_t size = 0;
  std::optional<extent_id> extent;
};

struct input_options {
  std::int64_t below = 0;             ///< model_input::below
  std::optional<extent_id> length_of; ///< model_input::length_of
};

/// A parameter of a layer that is another layer's: its own name, and the global name that it has instead.
using parameter_ties = std::map<std::string, std::string>;

/// Adds layers in topological order and infers shapes as it goes. Names of layers, inputs and losses are unique.
class model_builder {
public:
  explicit model_builder(std::string name);
  /// With one input, called "input", without the batch: {3, 224, 224}.
  model_builder(std::string name, shape input);

  extent_id extent(std::string name, std::int64_t nominal, std::int64_t most = 0);
  value_id input(std::string name, dtype type, const std::vector<input_axis>& axes, input_options options = {});
  /// The first input.
  value_id input() const { return model_.input(); }

  /// A layer with one output. Throws usage_error, the layer's name in front of what it says, when its shape inference
  /// refuses ("vgg16: features.30: input 1x1 is smaller than kernel 2x2"), and for a duplicate name.
  value_id add(std::string name, layer_ptr op, std::vector<value_id> inputs, const parameter_ties& tied = {});
  std::vector<value_id> add_multi(std::string name, layer_ptr op, std::vector<value_id> inputs,
                                  const parameter_ties& tied = {});
  /// What a layer of another model has tied, for the same layer here.
  static parameter_ties ties_of(const model& m, int layer);
  /// Throws usage_error likewise; one of the inputs must be a layer's output.
  void loss(std::string name, loss_ptr op, std::vector<value_id> inputs, loss_options options = {});
  /// Files have that parameter under this name too (model::aliases).
  void also_named(std::string alias, std::string parameter) {
    model_.aliases_[std::move(alias)] = std::move(parameter);
  }
  /// A value that leaves the last stage.
  void result(value_id id) { model_.results_.push_back(id); }
  /// The layer added next begins what freezes as a whole.
  void freeze_unit() { model_.freeze_units_.push_back(static_cast<int>(model_.layers_.size())); }
  void keep_together(std::vector<std::string> layers) { model_.kept_together_.push_back(std::move(layers)); }
  const tensor_spec& spec(value_id id) const { return model_.value(id).spec; }

  /// Throws usage_error where there is neither a loss nor a result.
  model build();
  /// A classifier: cross-entropy of these (N, classes) logits and an input "labels".
  model build(value_id logits);

  /// Without a loss: the last stage puts out that value.
  model build_inference(value_id result);

  /// A builder with that model's name, extents and inputs; `made` takes the ids of values by those in `m`.
  static model_builder like(const model& m, std::vector<std::optional<value_id>>& made);
  /// With that model's losses, results and units, once all its layers are there.
  model build_like(const model& m, std::vector<std::optional<value_id>> made);

private:
  value_id input_like(const model& m, const model_input& given);
  void refuse_taken(const std::string& wanted) const;
  void check_names() const;
  void name_sums();
  void resolve_ties();
  struct wish {
    int layer = 0;
    std::string parameter;
    std::string target;
  };

  model model_;
  std::vector<wish> wishes_; // of ties, until all layers are there
};

} // namespace penstock
