// What the definitions of the image networks share: checked options, scaled sizes, and a chain of layers being added.
#pragma once

#include "apps/models/registry.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::apps {

/// One convolution of a network, square.
struct conv_geometry {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// A network under construction: remembers the last value, so that a chain reads as a list.
class network {
public:
  /// Throws usage_error for an option out of range, naming the model, what was found and what was wanted. `minimum` is
  /// the least image size that the network is offered with (model_entry), refused below by build().
  network(std::string name, model_options options, std::int64_t default_size, std::int64_t minimum,
          std::int64_t default_channels, float default_dropout);

  /// A channel or hidden size at this width: a multiple of 8, at least 8, unless the width is 1.
  std::int64_t scaled(std::int64_t size) const;
  std::int64_t classes() const { return options_.classes; }
  const model_options& options() const { return options_; } ///< with the defaults filled in

  value_id last() const { return last_; }
  void continue_from(value_id id) { last_ = id; }
  const shape& last_dims() const { return builder_.spec(last_).dims; }

  /// Adds a layer behind the last value, which becomes its output.
  void add(const std::string& layer, layer_ptr op);
  void add(const std::string& layer, layer_ptr op, std::vector<value_id> inputs);

  /// `out` is taken as it is. Unset initialisers are PyTorch's defaults.
  void conv(const std::string& layer, std::int64_t out, conv_geometry geometry, bool bias = true,
            std::optional<initializer> weight = {}, std::optional<initializer> bias_init = {});
  void linear(const std::string& layer, std::int64_t out, std::optional<initializer> weight = {},
              std::optional<initializer> bias_init = {});
  void relu(const std::string& layer) { add(layer, layers::relu()); }
  void max_pool(const std::string& layer, conv_geometry geometry);
  void dropout(const std::string& layer) { add(layer, layers::dropout(dropout_)); }
  float dropout_rate() const { return dropout_; }
  /// For what only some networks say: units that freeze together, layers that no cut should part.
  model_builder& builder() { return builder_; }

  /// A second cross-entropy, of the last value, with that weight and in training only; its layers stand before those of
  /// the output.
  void auxiliary_loss(const std::string& name, float weight) { auxiliary_ = auxiliary_head{name, last_, weight}; }

  /// The output is the last value. Refuses an image below the minimum with the first layer's name where no layer has.
  model build();

private:
  std::string name_;
  model_options options_;
  std::int64_t minimum_;
  float dropout_;
  model_builder builder_;
  value_id last_;
  struct auxiliary_head {
    std::string name;
    value_id logits;
    float weight;
  };
  std::optional<auxiliary_head> auxiliary_;
  std::string first_layer_;
};

/// torch.nn.init.kaiming_normal_(mode="fan_out", nonlinearity="relu"): N(0, 2 / (out * kernel^2)).
initializer kaiming_normal_fan_out(std::int64_t out, std::int64_t kernel);
inline constexpr initializer zero_init{initializer_kind::constant, 0};

} // namespace penstock::apps
