// For tools/bench_lag: a network whose bytes lie in its first layer, whose gradient comes last.
#include "apps/plugins/plugin_api.hpp"
#include "kernels/layers/layers.hpp"

namespace {

using penstock::layers::linear;

/// 3072 -> 2048 -> 512 -> 512 -> classes at 32 pixels and three channels: 25 of its 31 MB are the first layer's.
penstock::model build_first_heavy(const penstock::apps::model_options& options) {
  const auto size = options.image_size > 0 ? options.image_size : 32;
  const auto channels = options.channels > 0 ? options.channels : 3;
  penstock::model_builder builder("first_heavy", {channels, size, size});
  auto x = builder.add("flatten", penstock::layers::flatten(), {builder.input()});
  auto width = channels * size * size;
  for (const auto& [name, outputs] : {std::pair{"first", 2048}, {"second", 512}, {"third", 512}}) {
    x = builder.add(name, linear({.in_features = width, .out_features = outputs}), {x});
    x = builder.add(std::string(name) + "_relu", penstock::layers::relu(), {x});
    width = outputs;
  }
  x = builder.add("output", linear({.in_features = width, .out_features = options.classes}), {x});
  return builder.build(x);
}

void register_into(penstock::apps::plugin_registry& registry) {
  registry.add_model({"first_heavy", "linear layers, nearly all bytes in the first", 32, 3, build_first_heavy});
}

} // namespace

PENSTOCK_PLUGIN("bench_lag_model", register_into)
