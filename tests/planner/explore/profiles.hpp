// Small profiles and clusters for the exploration's tests, and the published ones where they are at hand.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/profile/profile.hpp"
#include "tests/support/published_graph.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace penstock::planner::testing {

struct layer_of {
  std::string name;
  double seconds = 1; ///< forward; backward twice that
  double output_bytes = 0;
  double weight_bytes = 0;
};

/// A chain measured at `samples`; a layer keeps its output.
inline profile chain_of(const std::vector<layer_of>& layers, std::int64_t samples = 1, double input_bytes = 0) {
  profile p;
  p.model = "chain";
  p.input_bytes_per_sample = static_cast<std::int64_t>(input_bytes / static_cast<double>(samples));
  measurement m;
  m.samples = samples;
  for (const auto& l : layers) {
    profile_layer layer;
    layer.name = l.name;
    layer.kind = "linear";
    layer.inputs = {static_cast<int>(p.layers.size()) - 1};
    layer.weight_bytes = l.weight_bytes;
    p.layers.push_back(layer);
    layer_cost cost;
    cost.forward_seconds = l.seconds;
    cost.backward_seconds = 2 * l.seconds;
    cost.output_bytes = cost.kept_bytes = l.output_bytes;
    m.layers.push_back(cost);
  }
  p.measurements.push_back(m);
  return p;
}

/// Eight convolutions with large outputs and few weights, then two layers that hold most of the weights.
inline profile vgg_like(std::int64_t samples = 32) {
  std::vector<layer_of> layers;
  for (int i = 0; i < 8; ++i)
    layers.push_back({"features." + std::to_string(i), 0.02, 64e6 / (1 << i), 1e6});
  layers.push_back({"classifier.0", 0.004, 0.5e6, 400e6});
  layers.push_back({"classifier.3", 0.002, 0.1e6, 60e6});
  return chain_of(layers, samples, 20e6);
}

/// Large outputs everywhere, few weights.
inline profile resnet_like(std::int64_t samples = 32) {
  std::vector<layer_of> layers;
  for (int i = 0; i < 10; ++i)
    layers.push_back({"block" + std::to_string(i), 0.02, 80e6, 8e6});
  return chain_of(layers, samples, 20e6);
}

/// One of PipeDream's.
inline profile published_profile(const std::string& name, std::int64_t samples) {
  return profile_from_graph(test::published_graph(name), name + ".txt", samples);
}

/// Two levels of links.
inline cluster two_levels(int inner, int outer, double inner_bandwidth, double outer_bandwidth) {
  auto c = flat_cluster(inner * outer, inner_bandwidth);
  c.levels.front().group = inner;
  c.levels.push_back({.group = outer, .bandwidth_bytes_per_s = outer_bandwidth});
  return c;
}

/// The message of the std::invalid_argument that `work` throws; "" if it throws none.
template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

} // namespace penstock::planner::testing
