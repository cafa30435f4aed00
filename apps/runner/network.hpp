// From options to the model that they ask for.
#pragma once

#include "apps/plugins/plugin_registry.hpp"
#include "apps/runner/options.hpp"
#include "kernels/model.hpp"

#include <memory>

namespace penstock::apps {

struct built_network {
  std::shared_ptr<const model> net;
  model_options network;   ///< every default resolved
  std::string description; ///< what fixes names and shapes: "vgg16 image_size=64 channels=3 classes=10 width=1"
};

/// What the options leave open, the data set decides (of which only the facts are read), and else the model. Plug-ins'
/// layers are put in. Throws usage_error and penstock::error, one line each.
built_network build_network(const app_options& options, const plugin_registry& plugins);

} // namespace penstock::apps
