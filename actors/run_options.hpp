// What a training run is besides its plan: hyper-parameters, how it is executed, and where its outputs go.
#pragma once

#include "actors/policy/epoch_minibatches.hpp"
#include "kernels/optimizer.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock::actors {

enum class executor_kind : std::uint8_t { actors, oracle };

struct run_options {
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
  /// asgd: more than 0: averages begin where an evaluation is worse than the best of all but so many before it
  /// (asgd_trigger), not at optimizer.average_from.
  std::int64_t asgd_patience = 0;
  bool replica_lr_scaling = true; ///< factor R_s / R_0 in the pipedream family
  int rate_replicas = 0;          ///< R_0 there, of the run's first plan: settled by the run
  int column_blocks = 1;          ///< of data whose minibatches continue each other: settled by the run (batching)
  bool decay_norm_bias = true;    ///< weight decay on biases and normalisation parameters
  double clip_norm = 0;           ///< more than 0: clip the exact global norm (synchronous schedules)
  double clip_stage_norm = 0;     ///< more than 0: clip the norm of each stage's own gradients
  bool stop_on_nonfinite = true;

  // -- evaluation -----------------------------------------------------------------
  std::int64_t eval_every = 1; ///< epochs between evaluations; 0: only at the end; below 0: never
  std::int64_t eval_batch = 0; ///< 0: batch
  bool eval_only = false;

  // -- execution ------------------------------------------------------------------
  executor_kind executor = executor_kind::actors;
  bool pin = true;                ///< pin workers to cores when there are enough
  bool reference_kernels = false; ///< plain loops instead of oneDNN
  std::string device = "cpu";     ///< kind of the devices that compute (kernels/device_kinds.hpp)
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

inline batching training_batches(const run_options& o) {
  return {.batch = o.batch, .last = o.last, .seed = o.seed, .training = true, .column_blocks = o.column_blocks};
}
inline batching evaluation_batches(const run_options& o, std::int64_t batch) {
  return {.batch = batch, .last = last_batch::keep, .seed = o.seed, .training = false};
}

} // namespace penstock::actors
