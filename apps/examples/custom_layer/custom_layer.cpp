// A plug-in: names the layers and the small network that it brings.
#include "activations.hpp"
#include "apps/plugins/plugin_api.hpp"
#include "kernels/layers/layers.hpp"

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

void register_into(penstock::apps::plugin_registry& registry) {
  registry.add_layer("swish", "x * sigmoid(beta x); option beta, 1", make_swish);
  registry.add_layer("leaky_relu", "x or slope * x; option slope, 0.01", make_leaky_relu);
  registry.add_model({"perceptron", "two linear layers with swish between them", 28, 1, build_perceptron});
}

} // namespace

PENSTOCK_PLUGIN("custom_layer", register_into)
