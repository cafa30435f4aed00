// A plan with what it was made for and what it is predicted to cost: what `penstock plan` finds and a plan's file
// holds.
#pragma once

#include "planner/machine.hpp"
#include "planner/plan/execution_plan.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

struct stage_memory { ///< bytes of the fullest replica, at the moment that is fullest
  double weights = 0; ///< all versions alive
  double gradients = 0;
  double optimizer_state = 0;
  double activations = 0; ///< kept for backward and between stages
  double workspace = 0;
  double total = 0; ///< at the peak; at most the sum of the parts' peaks
};

struct stage_prediction {
  double forward_seconds = 0;  ///< of one micro-batch; its recomputation is in backward
  double backward_seconds = 0; ///< adding to gradients that are there, where a replica has several micro-batches
  double update_seconds = 0;
  double all_reduce_seconds = 0; ///< of one update, as it runs beside other traffic
  double send_seconds = 0;       ///< activations of one micro-batch to the next stage, alone on the link
  double busy = 0;               ///< share of the time, mean over the replicas
  stage_memory memory;
};

struct prediction {
  double step_seconds = 0;                      ///< one minibatch through the whole pipeline in steady state
  double speedup_over_one_device = 0;           ///< over the best device's simulated plan of the whole model
  double bubble = 0;                            ///< 1 - busy, mean over workers
  double bytes_per_minibatch = 0;               ///< sent between devices
  double data_parallel_bytes_per_minibatch = 0; ///< what pure data parallelism over as many devices would send
  std::string binding; ///< "compute of stage 1", "link 0-1", "all-reduce of stage 0", "memory of stage 0"
  std::vector<stage_prediction> stages;
  std::optional<machine> costs; ///< what it was computed from: enough to simulate the plan again
};

/// One row of `penstock plan --explain`.
struct plan_summary {
  std::string text; ///< "conv1..pool5 x15 | fc6..fc8 x1"
  std::string origin;
  std::string schedule;
  int microbatches = 1;
  std::vector<std::int64_t> in_flight;
  std::vector<std::int64_t> update_lag; ///< empty: none
  bool recompute = false;
  double step_seconds = 0;
  double peak_bytes = 0; ///< of the fullest device
  double bubble = 0;
  double bytes_per_minibatch = 0;
  double data_parallel_bytes_per_minibatch = 0;
  std::string binding;
  std::string rejected; ///< why it was not taken; "" for the winner
};

/// A plan as its file has it: what is run, and what is known of it.
struct plan : execution_plan {
  static constexpr int version = 1;
  std::string model;
  std::string model_options;    ///< as profile::model_options
  std::int64_t batch = 0;       ///< samples of a minibatch
  int optimizer_copies = 1;     ///< of the weights, in optimizer state: what memory was predicted for
  bool simulation_only = false; ///< devices or a schedule that the runtime does not have ("fbp-as")
  std::optional<prediction> predicted;
  std::string reason; ///< one line: why it won
  std::optional<plan_summary> runner_up;
  std::vector<plan_summary> considered;
  std::map<std::string, std::string> inputs; ///< profile and cluster by name, costs used: for the reader
};

/// Reads a plan that `penstock plan` or a person wrote; only `stages` with their layers must be there. Every key known,
/// types and ranges right, no key twice, no device twice; one line with `source` and the key's path otherwise
/// (std::invalid_argument), as for a later version. A prediction that was made for something else than the plan as it
/// stands (it was edited since) is left out.
plan plan_from_json(std::string_view text, const std::string& source);
std::string to_json(const plan& p);

/// As settle_schedule.
plan settled(plan p);

/// Makes the schedule of a few minibatches and runs the static checker: what the runtime would refuse is refused here.
/// Also what check_devices refuses, and more actions than any machine would hold. Where only the model's layers tell
/// which stages are frozen (knows_frozen_stages) the schedule is left to whoever settles that. Throws
/// std::invalid_argument, one line.
void check_plan(const plan& p);

} // namespace penstock::planner
