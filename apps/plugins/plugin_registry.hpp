// What plug-ins bring: layers, models and freeze policies by name. A plug-in fills one while it is loaded.
#pragma once

#include "actors/freeze/freeze_policy.hpp"
#include "apps/models/registry.hpp"

namespace penstock::apps {

/// Makes a layer from what the user wrote behind its name ("slope=0.1" of `leaky_relu:slope=0.1`; may be empty). Throws
/// usage_error for options it cannot take; `layer_options` below reads the usual form.
using layer_factory = std::function<layer_ptr(std::string_view options)>;

struct plugin_layer {
  std::string name;    ///< "swish": letters, digits, '_', '-', '.'
  std::string summary; ///< one line
  layer_factory make;
  std::string plugin; ///< who brought it; filled in by the loader
};

/// Layers, models and policies of the plug-ins loaded so far. Not thread safe: plug-ins are loaded before a run starts.
class plugin_registry {
public:
  /// Throws usage_error for a name that is empty, malformed or taken, and for a missing factory.
  void add_layer(std::string name, std::string summary, layer_factory make);
  /// The model becomes known to find_model (apps/models/registry.hpp) once its plug-in is loaded completely. Throws
  /// usage_error for a name that is empty or taken, and for a missing function.
  void add_model(model_entry entry);

  /// A freeze policy, asked for as NAME or NAME:OPTIONS (actors::parse_freeze_policy). Throws usage_error for a name
  /// that is empty, malformed or taken, and for a missing factory.
  void add_freeze_policy(std::string name, std::string summary, actors::freeze_policy_factory make);

  const std::vector<plugin_layer>& layers() const { return layers_; }
  /// Added models that are not in the global registry yet.
  const std::vector<model_entry>& models() const { return models_; }
  const std::vector<actors::plugin_freeze_policy>& freeze_policies() const { return freeze_policies_; }
  const std::vector<std::string>& plugins() const { return plugins_; }

  /// A layer by name and options. Throws usage_error with the nearest name, or with what the factory says.
  layer_ptr make_layer(std::string_view name, std::string_view options) const;

  /// For the loader: takes over everything of `other`, the registry that the plug-in of that name filled, and hands
  /// its models to the global registry. Changes nothing when it throws (usage_error for a name that is taken).
  void adopt(const std::string& plugin, plugin_registry other);

private:
  std::vector<plugin_layer> layers_;
  std::vector<model_entry> models_;
  std::vector<actors::plugin_freeze_policy> freeze_policies_;
  std::vector<std::string> plugins_;
};

/// Reads "slope=0.1,inplace=1": each option is asked for once, then finish() refuses what nobody asked for.
class layer_options {
public:
  /// Throws usage_error for a part that is not KEY=NUMBER and for a key given twice.
  explicit layer_options(std::string_view text);
  /// The number given for `key`, or `otherwise`.
  double number(const std::string& key, double otherwise);
  /// Throws usage_error naming the first option that was never asked for, with the nearest that was.
  void finish() const;

private:
  struct option {
    std::string key;
    double value = 0;
    bool asked = false;
  };
  std::vector<option> given_;
  std::vector<std::string> known_;
};

} // namespace penstock::apps
