// A model: a named directed graph of layers in one topological order. Stages are contiguous ranges of that order.
#pragma once

#include "kernels/loss_function.hpp"
#include "kernels/microbatch_info.hpp"

#include <map>
#include <memory>

namespace penstock {

class shapes_by_extent; // kernels/shapes_by_extent.hpp

/// Index of a value (a tensor between layers) within a model.
enum class value_id : std::int32_t {};
/// Index of an extent that varies from minibatch to minibatch within a model.
enum class extent_id : std::int32_t {};

struct model_value {
  std::string name;  ///< the layer's name, or the input's; global, independent of any partition
  tensor_spec spec;  ///< with batch 1 and nominal extents; dims[0] is the batch always
  int producer = -1; ///< layer index, -1 for an input
  std::vector<int> consumers;
  std::vector<int> losses; ///< that read it
};

struct model_layer {
  std::string name; ///< torchvision's module name: "layer1.0.conv1"
  layer_ptr op;
  std::vector<value_id> inputs;
  std::vector<value_id> outputs;
};

/// A tensor with several uses: layers that have it as a parameter, by global name. The first one named it.
struct parameter_tie {
  struct use {
    int layer = 0;
    std::size_t parameter = 0; ///< index in the layer's own parameters
  };
  std::string name;
  use owner;
  std::vector<use> uses; ///< the owner's too, in the order of layers
};

/// An extent that varies, beside the batch: the time steps of a sequence.
struct model_extent {
  std::string name;
  std::int64_t nominal = 1; ///< what profiles and plans take where nothing is said
  std::int64_t most = 0;    ///< 0: no bound
};

/// What the source feeds to whichever stages read it.
struct model_input {
  value_id value{};
  std::vector<std::optional<extent_id>> extents; ///< by axis behind the batch
  std::int64_t below = 0;                        ///< integers: they lie in [0, below); 0: not said
  std::optional<extent_id> length_of;            ///< integers: how much of that extent each sample fills
};

struct loss_options {
  float weight = 1;
  std::string counted_by = "samples"; ///< what its gradient is divided by, of the minibatch
  bool training_only = false;         ///< it is no part of an evaluation's loss
  /// Where people read it by another unit than it is divided by: "token" of a loss that has a sum "tokens".
  std::string unit = "";
};

/// Computed where its inputs are: behind layer `after`, on the stage that has that layer.
struct model_loss {
  std::string name;
  loss_ptr op;
  std::vector<value_id> inputs;
  loss_options options;
  int after = 0;
  std::size_t count = 0;     ///< index in counts()
  std::size_t first_sum = 0; ///< of its sums in sums()
};

class model {
public:
  const std::string& name() const { return name_; }
  const std::vector<model_layer>& layers() const { return layers_; }
  const std::vector<model_value>& values() const { return values_; }
  const model_value& value(value_id id) const { return values_.at(static_cast<std::size_t>(id)); }
  const std::vector<model_input>& inputs() const { return inputs_; }
  const std::vector<model_extent>& extents() const { return extents_; }
  const std::vector<model_loss>& losses() const { return losses_; }
  /// Values that leave the last stage, for whoever reads them.
  const std::vector<value_id>& results() const { return results_; }
  /// What losses are divided by: "samples" first.
  const std::vector<std::string>& counts() const { return counts_; }
  /// Of all losses: "loss", "correct", ...; behind the loss's name where there are several ("aux.loss").
  const std::vector<std::string>& sums() const { return sums_; }
  const std::vector<parameter_tie>& ties() const { return ties_; }
  /// The first tie with uses before that layer and from it on; null: none.
  const parameter_tie* tie_across(int layer) const;
  /// Further names that a file has for a parameter: those of a tied one's uses, and what else was said; by these names.
  const std::map<std::string, std::string>& aliases() const { return aliases_; }
  /// Layers that no cut should part.
  const std::vector<std::vector<std::string>>& kept_together() const { return kept_together_; }
  /// First layers of what freezes as a whole, ascending, perhaps repeated; the last of them, the head, never freezes,
  /// and what is before the first goes with it. Empty: each layer that has parameters, with those behind it that have
  /// none.
  const std::vector<int>& freeze_units() const { return freeze_units_; }

  /// The first input.
  value_id input() const { return inputs_.front().value; }
  /// What the first loss judges, or the first result.
  value_id output() const { return output_; }
  /// Last extent of the output.
  std::int64_t classes() const { return value(output_).spec.dims.back(); }

  /// Shape and type of a value in such a micro-batch.
  tensor_spec spec(value_id id, const microbatch_info& of) const;
  /// With nominal extents.
  std::vector<tensor_spec> input_specs(int layer, std::int64_t batch = 1) const;
  /// Parameters of one layer with their global names: "LAYER.PARAMETER", or the layer's where the parameter has none;
  /// of a tied one what its owner says.
  std::vector<parameter_spec> parameters(int layer) const;
  std::vector<state_spec> states(int layer) const;
  /// What one layer hands from minibatch to minibatch, with global names.
  std::vector<state_spec> carried(int layer) const;
  /// True where any layer does.
  bool carries() const;
  std::int64_t parameter_count() const { return parameter_count(0, static_cast<int>(layers_.size())); }
  /// Of layers [first, last); a tensor that several of them use counts once.
  std::int64_t parameter_count(int first, int last) const;

  /// Values that cross a cut between layer `cut` - 1 and layer `cut`, by producer order. Inputs do not: the source
  /// feeds them to the stages that read them.
  std::vector<value_id> crossing(int cut) const;
  /// Inputs that layers [first, last) and their losses read.
  std::vector<value_id> fed(int first, int last) const;

  /// False for a loss that serves training alone, unless it is the model's first.
  bool is_evaluated(const model_loss& loss) const { return !loss.options.training_only || &loss == &losses_.front(); }
  /// False for a layer that only such losses need: an evaluation leaves it out.
  bool is_evaluated(int layer) const { return evaluated_[static_cast<std::size_t>(layer)]; }
  /// Whether an evaluation needs that value in layer `cut` or a later one, their losses or the results.
  bool is_evaluated(value_id id, int cut) const;

  /// Whether any loss behind that layer or a later one has something to count in such a minibatch. Where none has,
  /// nothing flows back.
  bool counts_anything(const microbatch_info& of, int first_layer = 0) const;

  /// The layer, that one or a later one, that asks for the most samples in a training micro-batch, the first of
  /// several; 1 and "" where none does.
  struct sample_need {
    std::int64_t samples = 1;
    std::string layer;
  };
  sample_need least_training_samples(int first_layer = 0) const;

  /// The same with that label smoothing in every loss that has labels. Throws usage_error where none has.
  model smoothed(float label_smoothing) const;

private:
  friend class model_builder;
  std::string name_;
  std::vector<model_layer> layers_;
  std::vector<model_value> values_;
  std::vector<model_input> inputs_;
  std::vector<model_extent> extents_;
  std::vector<model_loss> losses_;
  std::vector<value_id> results_;
  std::vector<std::string> counts_{"samples"};
  std::vector<std::string> sums_;
  std::vector<parameter_tie> ties_;
  std::map<std::string, std::string> aliases_;
  std::vector<std::vector<std::string>> kept_together_;
  std::vector<int> freeze_units_;
  value_id output_{};
  std::vector<bool> evaluated_; // by layer
  std::vector<parameter_spec> own_parameters(int layer) const;
  void find_evaluated();
  std::shared_ptr<shapes_by_extent> shapes_; // null where no extent varies
};

} // namespace penstock
