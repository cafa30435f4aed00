// Rebuilds a model with some of its layers exchanged.
#include "apps/plugins/replace_layers.hpp"

#include "kernels/check.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <set>

namespace penstock::apps {

namespace {

// One entry per layer of the model: the replacement that applies to it, or null.
using assignment = std::vector<const layer_replacement*>;

[[noreturn]] void refuse_unknown(const model& net, const std::string& what) {
  std::set<std::string> words;
  for (const auto& l : net.layers()) {
    words.emplace(l.op->kind());
    words.insert(l.name);
  }
  const std::vector<std::string> candidates(words.begin(), words.end());
  throw usage_error(net.name() + ": no layer and no kind of layer is called " + in_quotes(what) +
                    did_you_mean(what, candidates));
}

assignment assign(const model& net, std::span<const layer_replacement> replacements) {
  assignment by_layer(net.layers().size(), nullptr);
  std::set<std::string> seen;
  for (const auto& r : replacements) {
    if (!seen.insert(r.what).second) throw usage_error(net.name() + ": " + in_quotes(r.what) + " is replaced twice");
    bool found = false;
    for (std::size_t i = 0; i < by_layer.size(); ++i) {
      const auto& l = net.layers()[i];
      const bool named = l.name == r.what;
      if (!named && l.op->kind() != r.what) continue;
      found = true;
      // A name goes before a kind, whichever comes first.
      if (named || by_layer[i] == nullptr) by_layer[i] = &r;
    }
    if (!found) refuse_unknown(net, r.what);
  }
  return by_layer;
}

} // namespace

layer_replacement parse_replacement(std::string_view text) {
  const auto equals = text.find('=');
  const auto right = equals == std::string_view::npos ? std::string_view{} : text.substr(equals + 1);
  const auto colon = right.find(':');
  layer_replacement r{std::string(text.substr(0, equals)), std::string(right.substr(0, colon)),
                      colon == std::string_view::npos ? "" : std::string(right.substr(colon + 1))};
  if (r.what.empty() || r.layer.empty())
    throw usage_error("--replace-layer '" + std::string(text) +
                      "': wanted KIND_OR_NAME=PLUGIN_LAYER[:options], as relu=swish");
  return r;
}

model replace_layers(const model& net, std::span<const layer_replacement> replacements,
                     const plugin_registry& registry) {
  const auto by_layer = assign(net, replacements);
  std::map<const layer_replacement*, layer_ptr> made; // layers are stateless: one serves all its places
  for (const auto& r : replacements) {
    try {
      made[&r] = registry.make_layer(r.layer, r.options);
    } catch (const usage_error& e) {
      throw usage_error(net.name() + ": " + e.what());
    }
  }
  std::vector<std::optional<value_id>> moved; // value of `net` -> value of the new model
  auto builder = model_builder::like(net, moved);
  for (std::size_t i = 0; i < by_layer.size(); ++i) {
    const auto& l = net.layers()[i];
    std::vector<value_id> inputs;
    for (const auto id : l.inputs)
      inputs.push_back(moved.at(static_cast<std::size_t>(id)).value());
    const auto outputs = builder.add_multi(l.name, by_layer[i] != nullptr ? made.at(by_layer[i]) : l.op, inputs,
                                           model_builder::ties_of(net, static_cast<int>(i)));
    if (outputs.size() != l.outputs.size())
      throw usage_error(net.name() + ": " + l.name + ": '" + by_layer[i]->layer + "' has " +
                        std::to_string(outputs.size()) + " outputs, the layer it replaces " +
                        std::to_string(l.outputs.size()));
    for (std::size_t k = 0; k < outputs.size(); ++k)
      moved.at(static_cast<std::size_t>(l.outputs[k])) = outputs[k];
  }
  auto replaced = builder.build_like(net, moved);
  if (replaced.classes() != net.classes())
    throw usage_error(net.name() + ": with the layers replaced it has " + std::to_string(replaced.classes()) +
                      " classes instead of " + std::to_string(net.classes()));
  return replaced;
}

} // namespace penstock::apps
