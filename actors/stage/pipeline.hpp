// The pipeline's parts before anything runs: stages with their devices and streams, initial weights, optimizer and
// BatchNorm state. In a job of several processes each has the parts of the replicas that it hosts, and the shape of the
// rest. What is learnt moves to its owners when an executor begins; from then on only they have it.
#pragma once

#include "actors/optimizer/optimizer_core.hpp"
#include "actors/policy/placement.hpp"
#include "actors/run_options.hpp"
#include "actors/stage/compute_times.hpp"
#include "actors/stage/work_line.hpp"
#include "kernels/safetensors.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "planner/plan/execution_plan.hpp"

#include <functional>
#include <memory>

namespace penstock::actors {

/// On another rank: everything is empty.
struct replica_unit {
  std::shared_ptr<device> memory; ///< a memory domain of its own, so that its bytes are counted apart
  std::unique_ptr<stream> work;   ///< stages of one worker take turns
  std::shared_ptr<work_line> line = std::make_shared<work_line>(); ///< of what actors post to it
  std::vector<tensor> states; ///< BatchNorm statistics by segment::states(), for their owner
  /// What minibatches handed on so far, by segment::carried(), of all columns: in a run that goes on, for its owner.
  std::vector<tensor> carried;
  compute_times times; ///< written when work of the stream is complete
  outcome unread;      ///< of updates, told with the next forward or what reads their weights; used by the stream alone
  std::int64_t unread_version = 0;                       ///< the newest of them
  std::function<void(const layer_observation&)> observe; ///< for profiles; else empty
};

struct stage_unit {
  int index = 0;
  bool is_first = false;
  bool is_first_active = false; ///< all before it are frozen: nobody wants its input gradients
  bool is_last = false;
  bool after_layer_actor = false;  ///< what comes in from the left is a user's
  bool before_layer_actor = false; ///< and from the right
  bool recomputes = false;         ///< keeps a micro-batch's inputs instead of its activations
  std::shared_ptr<const segment> layers;
  std::vector<replica_unit> replicas;
  std::vector<format_ptr> formats; ///< of the parameters
  stage_weights owned;             ///< for their owner
  std::vector<int> local;          ///< replicas on this rank; empty: weights and optimizer state are elsewhere too

  bool is_local() const { return !local.empty(); }
  replica_unit& first_local() { return replicas[static_cast<std::size_t>(local.front())]; }
  const replica_unit& first_local() const { return replicas[static_cast<std::size_t>(local.front())]; }
  stream& update_stream() { return *first_local().work; }
  allocator& update_memory() { return first_local().memory->memory(); }
};

struct pipeline {
  std::shared_ptr<const model> net;
  std::vector<stage_unit> stages;
  std::unique_ptr<optimizer> rule;
  int chunks = 1; ///< stages that each worker hosts
  int threads = 1;
  bool require_finite = true; ///< of what layers return
  std::int64_t columns = 0;   ///< batch columns of a model that hands on a state, else 0
  placement where;
  int rank = 0;

  /// Places for workers: position p hosts stages p, p + positions, ...
  int positions() const { return static_cast<int>(stages.size()) / chunks; }
  std::vector<int> stages_at(int position) const {
    std::vector<int> hosted;
    for (int s = position; s < static_cast<int>(stages.size()); s += positions())
      hosted.push_back(s);
    return hosted;
  }
};

/// It has losses; or it is the last, whose results are the model's.
inline bool tells_metrics(const stage_unit& s) {
  return !s.layers->losses().empty() || (s.is_last && !s.layers->outputs().empty());
}

/// Opens devices and streams of a settled plan (pinned when options.pin and there are cores enough), allocates weights
/// with their initial values. Only what `rank` hosts gets devices and weights.
std::unique_ptr<pipeline> build_pipeline(const planner::execution_plan& plan, const run_options& options,
                                         std::shared_ptr<const model> net, int rank = 0);

/// Plain copies of a stage's newest weights in the host's memory, by global name. On a stream of the stage's device;
/// their bytes are there when the work is complete.
named_tensors plain_weights(backend& ops, const segment& layers, const stage_weights& owned, memory_pool& pool);
/// As "NAME.momentum".
named_tensors plain_optimizer_state(backend& ops, const segment& layers, const optimizer& step,
                                    const stage_weights& owned, memory_pool& pool);

/// That tensor in the stage's own format and memory: plain, or as another stage of this process or of another keeps it.
/// One that came over the wire in this very layout is taken as it is. Throws penstock::error for another's layout.
tensor placed(backend& ops, const tensor& given, const format_ptr& format, memory_use use);

/// Puts tensors into a stage's parameters, by `placed`. Names must all be there.
void load_weights(stage_unit& s, const named_tensors& weights);

/// Mean of one state over replicas, in replica order: f32 sums divided once; i64 rounds down.
tensor mean_of(std::span<const tensor> replicas, memory_pool& pool);

} // namespace penstock::actors
