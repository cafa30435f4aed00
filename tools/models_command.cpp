// `penstock models`: what can be trained.
#include "apps/models/describe.hpp"
#include "apps/plugins/load_plugin.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/say.hpp"
#include "tools/commands.hpp"

#include <cstdio>

namespace penstock::tools {

int models_command(std::span<const std::string> arguments) {
  std::string name;
  std::vector<std::string> plugin_files;
  apps::model_options network;
  apps::command_line line("penstock models", "Lists the models, or one model's layers.");
  line.positional("NAME", name, "A model");
  line.whole("--image-size", network.image_size, 1, apps::largest_image, "Pixels a side [the model's own]");
  line.whole("--classes", network.classes, 1, apps::most_classes, "Classes");
  line.real("--width", network.width, 1e-6, apps::widest, "Scales every channel and hidden size");
  line.texts("--plugin", plugin_files, "FILE", "Load a plug-in (repeatable)");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  const auto plugins = apps::of_option("--plugin", [&] { return apps::load_plugins(plugin_files); });
  const auto text =
      name.empty() ? apps::describe_models() : apps::describe_model(apps::find_model(name).build(network));
  apps::say(text);
  return 0;
}

} // namespace penstock::tools
