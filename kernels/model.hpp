// A model: a named directed graph of layers in one topological order. Stages are contiguous ranges of that order.
#pragma once

#include "kernels/layer.hpp"

#include <map>

namespace penstock {

/// Index of a value (a tensor between layers) within a model.
enum class value_id : std::int32_t {};

struct model_value {
  std::string name;  ///< the layer's name, or the input's; global, independent of any partition
  tensor_spec spec;  ///< with batch 1
  int producer = -1; ///< layer index, -1 for the model's input
  std::vector<int> consumers;
};

struct model_layer {
  std::string name; ///< torchvision's module name: "layer1.0.conv1"
  layer_ptr op;
  std::vector<value_id> inputs;
  std::vector<value_id> outputs;
};

class model {
public:
  const std::string& name() const { return name_; }
  const std::vector<model_layer>& layers() const { return layers_; }
  const std::vector<model_value>& values() const { return values_; }
  const model_value& value(value_id id) const { return values_.at(static_cast<std::size_t>(id)); }
  value_id input() const { return input_; }
  value_id output() const { return output_; }
  std::int64_t classes() const { return classes_; }

  std::vector<tensor_spec> input_specs(int layer, std::int64_t batch = 1) const;
  /// Parameters of one layer with their global names.
  std::vector<parameter_spec> parameters(int layer) const;
  std::vector<state_spec> states(int layer) const;
  std::int64_t parameter_count() const;

  /// Values that cross a cut between layer `cut` - 1 and layer `cut`, by producer order; the model's input included
  /// where a later layer still reads it.
  std::vector<value_id> crossing(int cut) const;

  /// The layer that asks for the most samples in a training micro-batch, the first of several; 1 and "" where none
  /// does.
  struct sample_need {
    std::int64_t samples = 1;
    std::string layer;
  };
  sample_need least_training_samples() const;

private:
  friend class model_builder;
  std::string name_;
  std::vector<model_layer> layers_;
  std::vector<model_value> values_;
  value_id input_{};
  value_id output_{};
  std::int64_t classes_ = 0;
};

/// Adds layers in topological order and infers shapes as it goes.
class model_builder {
public:
  /// `input` without the batch: {3, 224, 224}.
  model_builder(std::string name, shape input);
  value_id input() const { return model_.input_; }
  /// A layer with one output. Throws usage_error, the layer's name in front of what it says, when its shape inference
  /// refuses ("vgg16: features.30: input 1x1 is smaller than kernel 2x2"), and for a duplicate name.
  value_id add(std::string name, layer_ptr op, std::vector<value_id> inputs);
  std::vector<value_id> add_multi(std::string name, layer_ptr op, std::vector<value_id> inputs);
  const tensor_spec& spec(value_id id) const { return model_.value(id).spec; }
  /// The output must be (N, classes).
  model build(value_id output);

private:
  model model_;
};

} // namespace penstock
