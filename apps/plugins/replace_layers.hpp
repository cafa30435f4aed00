// Puts layers of plug-ins into the place of a model's own.
#pragma once

#include "apps/plugins/plugin_registry.hpp"

namespace penstock::apps {

/// "relu=swish", "features.3=leaky_relu:slope=0.1": which layers to replace, by what.
struct layer_replacement {
  std::string what;    ///< a layer's name, or a kind (every layer of it)
  std::string layer;   ///< name in the plug-in registry
  std::string options; ///< for its factory
};

/// Throws usage_error for a text that is not KIND_OR_NAME=PLUGIN_LAYER[:options].
layer_replacement parse_replacement(std::string_view text);

/// The same graph with other layers in it: names, order and output are kept, shapes are inferred anew. A layer's name
/// goes before its kind. Throws usage_error, the model's name in front, for a name or kind that the model lacks (with
/// the nearest), a word given twice, a plug-in layer that does not exist, shapes that no longer fit, another number of
/// outputs or of classes.
model replace_layers(const model& net, std::span<const layer_replacement> replacements,
                     const plugin_registry& registry);

} // namespace penstock::apps
