// A small branching profile that uses every member.
#pragma once

#include "planner/profile/profile.hpp"

namespace penstock::planner {

/// input -> conv1 -> relu1 -> add -> fc, with conv1 -> add as well; two sizes on 1 thread and one on 4.
inline profile example_profile() {
  profile p;
  p.model = "tiny";
  p.model_options = "image_size=8 classes=10";
  p.input_bytes_per_sample = 768;
  p.machine = {{"processor", "a \"quoted\" name"}, {"library", "oneDNN 2.6"}};
  p.layers = {{.name = "conv1", .kind = "conv2d", .inputs = {-1}, .weight_bytes = 1792, .forward_flops = 1.1e6},
              {.name = "relu1", .kind = "relu", .inputs = {0}, .fused_with_previous = true},
              {.name = "add", .kind = "add", .inputs = {1, 0}},
              {.name = "fc", .kind = "linear", .inputs = {2}, .weight_bytes = 40960.5}};
  const auto costs = [](double seconds, double bytes) {
    return std::vector<layer_cost>{{seconds, 2 * seconds, 0.1 * seconds, bytes, bytes, 1000},
                                   {seconds / 3, seconds / 7, 0, bytes, 0, 0},
                                   {1e-7, 0, 0, bytes, bytes / 3, 0},
                                   {seconds * 0.7, seconds, 1e-9, 40, 40, 12}};
  };
  p.measurements = {{4, 1, costs(0.1, 4096), {1e-5, 0, 0, 3e-4}},
                    {16, 1, costs(0.31, 16384), {3e-5, 0, 0, 1e-4}},
                    {4, 4, costs(0.033, 4096), {}}};
  return p;
}

} // namespace penstock::planner
