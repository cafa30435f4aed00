// How a program loads plug-ins. A shared runner needs these three calls and nothing else:
//
//   1. options --plugin FILE (repeatable) and --replace-layer KIND_OR_NAME=PLUGIN_LAYER[:options] (repeatable), each
//      into a std::vector<std::string>, one value per occurrence;
//   2. before find_model / all_models:    plugin_registry plugins = load_plugins(plugin_values);
//   3. after entry.build(model_options):  model net = apply_plugins(built, replace_layer_values, plugins);
//   4. into run_inputs::model_options:    text += describe_replacements(replace_layer_values);
//
// Linking penstock::plugins makes an executable export what plug-ins need (apps/plugins/CMakeLists.txt); there is
// nothing to set on the executable itself.
#pragma once

#include "apps/plugins/replace_layers.hpp"

#include <filesystem>

namespace penstock::apps {

/// Loads one shared object and adds what it brings to `registry` and its models to the global list; nothing of it is
/// added when this throws. Never unloaded: its layers live as long as the process. Throws usage_error, one line that
/// starts with "[plugin] FILE: ", for a file that is missing or no shared object, one without an entry point, one built
/// for another ABI or with another compiler, standard library or Penstock, a name that is taken, and for an exception
/// while it registers.
void load_plugin(const std::filesystem::path& file, plugin_registry& registry);

/// Loads them in order into a new registry.
plugin_registry load_plugins(const std::vector<std::string>& files);

/// replace_layers() with the texts as the user wrote them; returns the model as it is when there are none.
model apply_plugins(const model& net, const std::vector<std::string>& replacements, const plugin_registry& registry);

/// " replace_layer=relu=swish" for each: a checkpoint of a model with other layers must be refused.
std::string describe_replacements(const std::vector<std::string>& replacements);

} // namespace penstock::apps
