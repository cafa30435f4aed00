// Builds the model anew, layer by layer in the order asked for.
#include "kernels/reorder_model.hpp"

#include "kernels/check.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <optional>

namespace penstock {

namespace {

const model_layer& find_layer(const model& m, const std::string& name) {
  const auto& layers = m.layers();
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const model_layer& l) { return l.name == name; });
  if (found != layers.end()) return *found;
  std::vector<std::string> names;
  for (const auto& l : layers)
    names.push_back(l.name);
  throw usage_error("layer order: " + m.name() + " has no layer " + in_quotes(name) + did_you_mean(name, names));
}

} // namespace

model reordered(const model& m, const std::vector<std::string>& order) {
  if (order.size() != m.layers().size())
    throw usage_error("layer order: found " + std::to_string(order.size()) + " layers, wanted the " +
                      std::to_string(m.layers().size()) + " of " + m.name());
  std::vector<std::optional<value_id>> made;
  auto builder = model_builder::like(m, made);
  for (const auto& name : order) {
    const auto& layer = find_layer(m, name);
    std::vector<value_id> inputs;
    for (const auto id : layer.inputs) {
      const auto& mine = made[static_cast<std::size_t>(id)];
      if (!mine)
        throw usage_error("layer order: '" + name + "' comes before '" +
                          m.layers()[static_cast<std::size_t>(m.value(id).producer)].name + "', which it reads");
      inputs.push_back(*mine);
    }
    const auto outputs = builder.add_multi(name, layer.op, std::move(inputs),
                                           model_builder::ties_of(m, static_cast<int>(&layer - m.layers().data())));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      made[static_cast<std::size_t>(layer.outputs[i])] = outputs[i];
  }
  return builder.build_like(m, made);
}

} // namespace penstock
