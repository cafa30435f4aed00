// What a training run is: everything that decides its numbers, and where its outputs go.
#pragma once

#include "actors/policy/minibatch_plan.hpp"
#include "kernels/optimizer.hpp"
#include "planner/schedule.hpp"

#include <filesystem>
#include <optional>

namespace penstock::actors {

enum class executor_kind : std::uint8_t { actors, oracle };

struct run_options {
  // -- the schedule and the partition ------------------------------------------
  std::string schedule = "pipedream";
  std::vector<int> replicas{1};        ///< one entry per stage
  std::vector<std::vector<int>> ranks; ///< by stage and replica: which process hosts it; empty: in order
  std::vector<int> cuts;               ///< first layer of stages 1..n-1; empty: balanced by parameters and flops
  int microbatches = 0;                ///< 0: the schedule's default
  planner::in_flight_spec in_flight;
  int window = 0;
  std::vector<bool>
      recompute; ///< per stage: drop activations after forward, compute them again in backward; empty: none

  // -- training -----------------------------------------------------------------
  std::int64_t batch = 32;
  last_batch last = last_batch::keep; ///< of an epoch, where samples are left that fill no minibatch
  std::int64_t epochs = 1;
  std::int64_t steps = 0; ///< more than 0: stop after this many minibatches, whatever the epochs
  std::uint64_t seed = 1;
  bool draws_weights = true; ///< false: initial weights are 0, where only the time of a step counts
  optimizer_options optimizer;
  lr_schedule_options lr;
  float label_smoothing = 0;
  bool replica_lr_scaling = true; ///< factor R_s / R_0 in the pipedream family
  bool decay_norm_bias = true;    ///< weight decay on biases and normalisation parameters
  double clip_norm = 0;           ///< more than 0: clip the exact global norm (synchronous schedules)
  bool stop_on_nonfinite = true;

  // -- evaluation -----------------------------------------------------------------
  std::int64_t eval_every = 1; ///< epochs between evaluations; 0: only at the end; below 0: never
  std::int64_t eval_batch = 0; ///< 0: batch
  bool eval_only = false;

  // -- execution ------------------------------------------------------------------
  executor_kind executor = executor_kind::actors;
  int threads = 0;                ///< compute threads per worker; 0: cores / workers, at least 1
  bool pin = true;                ///< pin workers to cores when there are enough
  bool reference_kernels = false; ///< plain loops instead of oneDNN
  int loader_threads = 2;
  double stall_seconds = 300; ///< no progress for this long ends the run with the wait-for graph

  // -- files ------------------------------------------------------------------------
  std::filesystem::path weights; ///< initial weights
  std::string weights_prefix;    ///< taken off the names in it
  bool allow_partial = false;
  std::filesystem::path save_weights;
  std::filesystem::path save_gradients; ///< gradients of the run's first update
  std::filesystem::path checkpoint;     ///< folder
  std::int64_t checkpoint_every = 0;    ///< minibatches; 0: at the end and on SIGUSR1
  bool resume = false;
  std::filesystem::path trace;
};

} // namespace penstock::actors
