// The pipeline's parts at rest: stages with their replicas, weights, optimizer and BatchNorm state. Both executors work
// on it; while one runs, its threads own the parts by turns, and between runs the trainer reads and writes it.
#pragma once

#include "actors/compute_times.hpp"
#include "actors/run_options.hpp"
#include "kernels/loss.hpp"
#include "kernels/safetensors.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"

#include <functional>
#include <memory>

namespace penstock::actors {

/// One weight version of one stage: immutable while more than one handle exists.
struct weight_set {
  std::int64_t version = 0;    ///< updates the stage has applied
  std::vector<tensor> tensors; ///< in the order of segment::parameters()
};
using weights_ptr = std::shared_ptr<weight_set>;

struct replica_unit {
  std::shared_ptr<device> memory; ///< a memory domain of its own, so that its bytes are counted apart
  std::unique_ptr<stream> work;
  std::vector<tensor> states;                            ///< BatchNorm statistics, in the order of segment::states()
  compute_times times;                                   ///< written on the stream
  std::function<void(const layer_observation&)> observe; ///< for profiles; else empty
};

struct stage_unit {
  int index = 0;
  bool is_first = false;
  bool is_last = false;
  bool recomputes = false; ///< keeps a micro-batch's inputs instead of its activations
  std::shared_ptr<const segment> layers;
  std::vector<replica_unit> replicas;
  std::vector<format_ptr> formats; ///< of the parameters
  weights_ptr weights;             ///< the newest version
  std::vector<optimizer_state> optimizer_states;
  named_tensors first_gradients; ///< plain, of the run's first update, when asked for

  stream& update_stream() { return *replicas.front().work; }
  memory_pool& update_memory() { return replicas.front().memory->memory(); }
};

struct pipeline {
  std::shared_ptr<const model> net;
  std::vector<stage_unit> stages;
  std::unique_ptr<optimizer> step;
  softmax_cross_entropy loss;
  int threads = 1;
};

/// Compute threads that each worker gets: as asked for, else the cores shared out, at least 1.
int threads_per_worker(const run_options& options);

/// Opens devices and streams (pinned when options.pin and there are cores enough), allocates weights with their
/// initial values. `cuts` as from balanced_cuts.
std::unique_ptr<pipeline> build_pipeline(const run_options& options, std::shared_ptr<const model> net,
                                         const std::vector<int>& cuts);

/// Plain copies of everything by global name. States: mean over the replicas, in replica order.
named_tensors plain_weights(pipeline& p, memory_pool& pool);
named_tensors mean_states(stage_unit& s, memory_pool& pool);
/// As "NAME.momentum".
named_tensors plain_optimizer_state(pipeline& p, stage_unit& s, memory_pool& pool);

/// Puts plain tensors into a stage's parameters (formats of its own). Names must all be there.
void load_weights(stage_unit& s, const named_tensors& weights);

/// Mean of one state over replicas, in replica order: f32 sums divided once; i64 rounds down.
tensor mean_of(std::span<const tensor> replicas, memory_pool& pool);

} // namespace penstock::actors
