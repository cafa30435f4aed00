// Names of plug-in layers, models and policies, and the options of layers.
#include "apps/plugins/plugin_registry.hpp"

#include "actors/freeze/freeze_policies.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace penstock::apps {

namespace {

bool is_well_formed(std::string_view name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed);
}

void check_name(const char* what, const std::string& name) {
  if (!is_well_formed(name))
    throw usage_error(std::string(what) + " " + in_quotes(name) + " needs a name of letters, digits, '_', '-' and '.'");
}

const plugin_layer* find_layer(const std::vector<plugin_layer>& layers, std::string_view name) {
  const auto at = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.name == name; });
  return at == layers.end() ? nullptr : &*at;
}

const actors::plugin_freeze_policy* find_policy(const std::vector<actors::plugin_freeze_policy>& policies,
                                                std::string_view name) {
  const auto at = std::find_if(policies.begin(), policies.end(), [&](const auto& p) { return p.name == name; });
  return at == policies.end() ? nullptr : &*at;
}

bool has_model(const std::vector<model_entry>& models, const std::string& name) {
  return std::any_of(models.begin(), models.end(), [&](const auto& m) { return m.name == name; });
}

void refuse_known_model(const std::string& name) {
  for (const auto* known : all_models())
    if (known->name == name) throw usage_error("model " + in_quotes(name) + " exists already");
}

double parse_number(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw usage_error("option '" + std::string(key) + "' is '" + std::string(text) + "'; wanted a number");
  return value;
}

} // namespace

void plugin_registry::add_layer(std::string name, std::string summary, layer_factory make) {
  check_name("layer", name);
  if (!make) throw usage_error("layer " + in_quotes(name) + " has no function that makes it");
  if (find_layer(layers_, name) != nullptr) throw usage_error("layer " + in_quotes(name) + " exists already");
  layers_.push_back({std::move(name), std::move(summary), std::move(make), {}});
}

void plugin_registry::add_model(model_entry entry) {
  check_name("model", entry.name);
  if (!entry.build) throw usage_error("model " + in_quotes(entry.name) + " has no function that builds it");
  if (has_model(models_, entry.name)) throw usage_error("model " + in_quotes(entry.name) + " exists already");
  models_.push_back(std::move(entry));
}

void plugin_registry::add_freeze_policy(std::string name, std::string summary, actors::freeze_policy_factory make) {
  check_name("freeze policy", name);
  if (!make) throw usage_error("freeze policy " + in_quotes(name) + " has no function that makes it");
  if (actors::is_freeze_policy(name) || find_policy(freeze_policies_, name) != nullptr)
    throw usage_error("freeze policy " + in_quotes(name) + " exists already");
  freeze_policies_.push_back({std::move(name), std::move(summary), std::move(make), {}});
}

layer_ptr plugin_registry::make_layer(std::string_view name, std::string_view options) const {
  const auto* found = find_layer(layers_, name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const auto& l : layers_)
      names.push_back(l.name);
    const auto there =
        names.empty() ? "; no plug-in layers are loaded (--plugin FILE)" : "; there are: " + join(names, ", ");
    throw usage_error("no plug-in layer '" + std::string(name) + "'" + did_you_mean(name, names) + there);
  }
  try {
    if (auto made = found->make(options)) return made;
  } catch (const std::exception& e) {
    throw usage_error("[plugin] " + found->plugin + ": layer '" + found->name + "': " + e.what());
  }
  throw usage_error("[plugin] " + found->plugin + ": layer '" + found->name + "': its factory gave none");
}

void plugin_registry::adopt(const std::string& plugin, plugin_registry other) {
  if (std::find(plugins_.begin(), plugins_.end(), plugin) != plugins_.end())
    throw usage_error("a plug-in " + in_quotes(plugin) + " is loaded already");
  for (const auto& l : other.layers_)
    if (const auto* known = find_layer(layers_, l.name))
      throw usage_error("layer " + in_quotes(l.name) + " exists already (plug-in '" + known->plugin + "')");
  for (const auto& m : other.models_)
    refuse_known_model(m.name);
  for (const auto& p : other.freeze_policies_)
    if (const auto* known = find_policy(freeze_policies_, p.name))
      throw usage_error("freeze policy " + in_quotes(p.name) + " exists already (plug-in '" + known->plugin + "')");
  for (auto& l : other.layers_) {
    l.plugin = plugin;
    layers_.push_back(std::move(l));
  }
  for (auto& m : other.models_)
    apps::add_model(std::move(m));
  for (auto& p : other.freeze_policies_) {
    p.plugin = plugin;
    freeze_policies_.push_back(std::move(p));
  }
  plugins_.push_back(plugin);
}

layer_options::layer_options(std::string_view text) {
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw usage_error("'" + std::string(part) + "' is not an option of the form KEY=NUMBER");
    const std::string key(part.substr(0, equals));
    if (std::any_of(given_.begin(), given_.end(), [&](const option& o) { return o.key == key; }))
      throw usage_error("option " + in_quotes(key) + " is given twice");
    given_.push_back({key, parse_number(key, part.substr(equals + 1)), false});
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
}

double layer_options::number(const std::string& key, double otherwise) {
  known_.push_back(key);
  for (auto& o : given_) {
    if (o.key != key) continue;
    o.asked = true;
    return o.value;
  }
  return otherwise;
}

void layer_options::finish() const {
  for (const auto& o : given_)
    if (!o.asked) throw usage_error("no option " + in_quotes(o.key) + did_you_mean(o.key, known_));
}

} // namespace penstock::apps
