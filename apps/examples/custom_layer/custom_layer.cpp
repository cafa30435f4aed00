// A plug-in: names the layers, the small network and the freeze policy that it brings.
#include "activations.hpp"
#include "apps/plugins/plugin_api.hpp"
#include "kernels/layers/layers.hpp"

#include <algorithm>

namespace {

using penstock::apps::layer_options;

penstock::layer_ptr make_swish(std::string_view text) {
  layer_options options(text);
  const auto beta = static_cast<float>(options.number("beta", 1.0));
  options.finish();
  return std::make_shared<custom_layer::swish>(beta);
}

penstock::layer_ptr make_leaky_relu(std::string_view text) {
  layer_options options(text);
  const auto slope = static_cast<float>(options.number("slope", 0.01));
  options.finish();
  if (slope < 0) throw penstock::usage_error("slope " + std::to_string(slope) + " is negative");
  return std::make_shared<custom_layer::leaky_relu>(slope);
}

/// Two linear layers with swish between them.
penstock::model build_perceptron(const penstock::apps::model_options& options) {
  const auto size = options.image_size > 0 ? options.image_size : 28;
  const auto channels = options.channels > 0 ? options.channels : 1;
  penstock::model_builder builder("perceptron", {channels, size, size});
  auto x = builder.add("flatten", penstock::layers::flatten(), {builder.input()});
  x = builder.add("hidden", penstock::layers::linear({.in_features = channels * size * size, .out_features = 64}), {x});
  x = builder.add("swish", std::make_shared<custom_layer::swish>(1.0F), {x});
  x = builder.add("output", penstock::layers::linear({.in_features = 64, .out_features = options.classes}), {x});
  return builder.build(x);
}

/// Freezes one unit more at each decision, up to a limit.
class one_by_one final : public penstock::actors::freeze_policy {
public:
  explicit one_by_one(int limit) : limit_(limit) {}
  std::string text() const override { return "one_by_one:limit=" + std::to_string(limit_); }
  bool reads_gradients() const override { return false; }
  int depth(const penstock::actors::freeze_statistics& seen) const override {
    return std::min({seen.depth + 1, limit_, static_cast<int>(seen.units.size())});
  }

private:
  int limit_;
};

penstock::actors::freeze_policy_ptr make_one_by_one(std::string_view text) {
  layer_options options(text);
  const auto limit = static_cast<int>(options.number("limit", 1));
  options.finish();
  if (limit < 1) throw penstock::usage_error("limit " + std::to_string(limit) + " freezes nothing");
  return std::make_shared<one_by_one>(limit);
}

void register_into(penstock::apps::plugin_registry& registry) {
  registry.add_layer("swish", "x * sigmoid(beta x); option beta, 1", make_swish);
  registry.add_layer("leaky_relu", "x or slope * x; option slope, 0.01", make_leaky_relu);
  registry.add_freeze_policy("one_by_one", "one unit more at each decision; option limit, 1", make_one_by_one);
  registry.add_model({"perceptron", "two linear layers with swish between them", 28, 1, build_perceptron});
}

} // namespace

PENSTOCK_PLUGIN("custom_layer", register_into)
