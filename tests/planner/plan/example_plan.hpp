// A plan with something in every member.
#pragma once

#include "planner/plan/plan.hpp"

namespace penstock::planner::testing {

inline plan_summary example_summary() {
  return {.text = "conv1..pool2 x2 | fc1..loss x1",
          .origin = "flat",
          .schedule = "1f1b",
          .microbatches = 4,
          .in_flight = {2, 1},
          .recompute = true,
          .step_seconds = 0.3,
          .peak_bytes = 1e9,
          .bubble = 0.25,
          .bytes_per_minibatch = 2e6,
          .data_parallel_bytes_per_minibatch = 8e6,
          .binding = "link 0-1",
          .rejected = "12 % slower"};
}

inline prediction example_prediction() {
  prediction made{.step_seconds = 0.1,
                  .speedup_over_one_device = 2.875,
                  .bubble = 1.0 / 3,
                  .bytes_per_minibatch = 1e6,
                  .data_parallel_bytes_per_minibatch = 4e6,
                  .binding = "compute of stage 1",
                  .stages = {},
                  .costs = machine{}};
  for (int s = 0; s < 2; ++s) {
    made.stages.push_back(
        {.forward_seconds = 0.01,
         .backward_seconds = 0.1 / 3,
         .update_seconds = 1e-4,
         .all_reduce_seconds = s == 0 ? 2e-3 : 0,
         .send_seconds = 5e-324,
         .busy = 1,
         .memory = {
             .weights = 1, .gradients = 2, .optimizer_state = 3, .activations = 4, .workspace = 5, .total = 15}});
    made.costs->stages.push_back({.devices = s == 0 ? std::vector<int>{0, 1} : std::vector<int>{2},
                                  .forward_seconds = {0.01, 0.02},
                                  .backward_seconds = {0.03},
                                  .accumulate_seconds = 1e-5,
                                  .update_seconds = 2e-5,
                                  .output_bytes = {3e5},
                                  .all_reduce_bytes = 4e5,
                                  .all_reduce_overlaps = false,
                                  .activation_delay_s = 5e-6,
                                  .gradient_delay_s = 6e-6,
                                  .weight_bytes = 7,
                                  .gradient_bytes = 8,
                                  .optimizer_bytes = 9,
                                  .state_bytes = 10,
                                  .kept_bytes = {1e6, 1.5e6},
                                  .workspace_bytes = {11}});
  }
  made.costs->links = {{.group = 3,
                        .bytes_per_second = 1e9,
                        .latency_s = 1e-5,
                        .shared = true,
                        .half_duplex = true,
                        .by_reference = true}};
  return made;
}

inline plan example_plan() {
  plan p;
  p.model = "lenet";
  p.model_options = "image_size=28 classes=10 width=1";
  p.batch = 64;
  p.schedule = "pipedream";
  p.microbatches = 1;
  p.window = 2;
  p.threads = 3;
  p.optimizer_copies = 2;
  p.layer_order = {"conv1", "pool2", "fc1", "loss"};
  p.stages = {{.first_layer = "conv1",
               .last_layer = "pool2",
               .replicas = 2,
               .devices = {"cpu:0", "cpu:1"},
               .in_flight = 2,
               .recompute = true},
              {.first_layer = "fc1",
               .last_layer = "loss",
               .replicas = 1,
               .devices = {"cpu:2"},
               .in_flight = 1,
               .recompute = false}};
  p.predicted = example_prediction();
  p.reason = "fastest of 40 by 12 %";
  p.runner_up = example_summary();
  p.considered = {example_summary(), example_summary()};
  p.inputs = {{"profile", "lenet.json"}, {"cluster", "three.toml"}};
  return p;
}

} // namespace penstock::planner::testing
