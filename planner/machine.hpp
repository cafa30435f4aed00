// A virtual machine that plays a schedule: workers that compute, links that carry, memory that fills.
#pragma once

#include "planner/simulate.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

/// What one stage costs on one of its replicas. Times and sizes per micro-batch: one number, or one for each of the M.
struct machine_stage {
  std::vector<int> devices; ///< one per replica; a device that two replicas share runs one action at a time
  std::vector<double> forward_seconds{1};
  std::vector<double> backward_seconds{2}; ///< recomputation included
  double accumulate_seconds = 0;           ///< more, for a backward that adds to gradients of the same update
  double update_seconds = 0;               ///< per update
  std::vector<double> output_bytes{0};     ///< to the next stage; as many come back as gradients
  double all_reduce_bytes = 0;             ///< per update, among the replicas; 0: nothing to do
  bool all_reduce_overlaps = true;         ///< starts with the update's last backward; else after it

  // memory of one replica, bytes
  double weight_bytes = 0; ///< of one version
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double state_bytes = 0;                 ///< whatever else stays
  std::vector<double> kept_bytes{0};      ///< from a forward's begin to its backward's end
  std::vector<double> workspace_bytes{0}; ///< while an action runs
};

/// One level of links between devices; as link_level of the cluster.
struct machine_link {
  int group = 1;
  double bytes_per_second = 0; ///< 0: no limit
  double latency_s = 0;
  bool shared = false;
  bool half_duplex = false;
  bool by_reference = false;
};

struct machine {
  std::vector<machine_stage> stages;
  std::vector<machine_link> links; ///< innermost first; empty: messages take no time
};

struct straggler {
  int device = 0;
  double factor = 1; ///< its times are multiplied by it
};

struct machine_options {
  double jitter = 0; ///< coefficient of variation of a log-normal factor (mean 1) on every action's time
  std::uint64_t seed = 1;
  std::vector<straggler> stragglers;
  bool keep_spans = true; ///< for a picture or a trace; off where only the figures count
};

enum class transfer_kind : std::uint8_t { activation, gradient, all_reduce };

struct simulated_transfer {
  transfer_kind what = transfer_kind::activation;
  int stage = 0; ///< the sender's
  int replica = 0;
  int to_stage = 0;
  int to_replica = 0;
  std::int64_t minibatch = 0; ///< of an all-reduce: its group
  std::int32_t microbatch = 0;
  double bytes = 0;
  double begin = 0;
  double end = 0;
};

struct simulated_memory { ///< bytes of the fullest replica of a stage
  double total = 0;       ///< the highest sum
  double weights = 0;     ///< each part at its own highest
  double gradients = 0;
  double optimizer_state = 0;
  double activations = 0;
  double workspace = 0;
  std::int64_t versions = 1; ///< weight versions alive at once
};

struct machine_run : simulation {
  std::vector<simulated_transfer> transfers; ///< in order of begin; with keep_spans
  std::vector<simulated_memory> memory;      ///< per stage
  std::vector<double> all_reduce_seconds;    ///< per stage, of one update as it ran
  double bytes_sent = 0;                     ///< between different devices, all-reduce included
  /// Seconds from one minibatch to the next in steady state: over the second half of the minibatches, measured where
  /// the first stage is done with them, in whole rounds of the replicas. The makespan over the minibatches where there
  /// are too few.
  double step_seconds = 0;
};

/// Plays the schedule's lists (credits, window, versions, dealing) on the machine. Transfers queue for the links they
/// use, in order of readiness. Throws std::invalid_argument for numbers that make no sense (one line), std::logic_error
/// if the lists cannot run.
machine_run run_machine(const schedule& s, const machine& m, const machine_options& options = {});

} // namespace penstock::planner
