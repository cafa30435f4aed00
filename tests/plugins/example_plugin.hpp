// The example's plug-in, shared by the tests of this program: models of plug-ins are global, so it is loaded once.
#pragma once

#include "apps/plugins/load_plugin.hpp"

namespace penstock::apps {

inline std::string plugin_file(const std::string& name) {
  return PLUGIN_FOLDER "/lib" + name + ".so";
}

inline const plugin_registry& example_plugin() {
  static const plugin_registry registry = load_plugins({plugin_file("custom_layer")});
  return registry;
}

} // namespace penstock::apps
