// Plain copies of all that stages have learnt, gathered on rank 0 and spread from there: for checkpoints, weights files
// and hashes. It does not depend on the plan.
#pragma once

#include "actors/ranks/bundle.hpp"
#include "actors/run/executor.hpp"

namespace penstock::actors {

struct stage_snapshot {
  std::string first_layer;
  std::int64_t layers = 0;
  std::size_t replicas = 1;
  std::int64_t frozen_layers = 0; ///< of them, the first ones: they have no optimizer state
  std::int64_t version = 0;
  std::map<std::string, std::int64_t> optimizer_steps; ///< by parameter
  /// "weights/NAME", "optimizer/NAME.momentum", "state/REPLICA/NAME", "carried/FIRST COLUMN/NAME"
  named_tensors tensors;
};

/// What this rank has of every stage: nothing but its shape of those that it does not host.
std::vector<stage_snapshot> snapshots_here(const pipeline& p, std::map<int, stage_copy> here);

/// Layers of the model before it are frozen in these.
int frozen_until_of(const std::vector<stage_snapshot>& all, const model& net);

/// Of these snapshots what the stages of `p` on that rank need; merge_snapshots adds it to what is there of the same
/// stages, and throws penstock::error for another number of them.
bundle bundle_for(int rank, const std::vector<stage_snapshot>& all, const pipeline& p);
void merge_snapshots(std::vector<stage_snapshot>& into, bundle b);

/// The stages in order, on rank 0; nothing on the others, which send what they host. `here`: what the owners on this
/// rank have, by stage. `transfers` null: one process.
std::vector<stage_snapshot> collect_snapshots(const pipeline& p, std::map<int, stage_copy> here,
                                              bundle_transfers* transfers, memory_pool& pool);

/// Rank 0 sends each rank what concerns its layers, of snapshots that may come from another plan; returns that part.
std::vector<stage_snapshot> spread_snapshots(std::vector<stage_snapshot> all, const pipeline& p,
                                             bundle_transfers* transfers, memory_pool& pool);

/// All weights, or all BatchNorm statistics (mean over the replicas, in replica order), by name.
named_tensors weights_of(const std::vector<stage_snapshot>& all);
named_tensors states_of(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net, memory_pool& pool);
/// The weights, or what the optimizer has in their place (optimizer::in_use).
named_tensors weights_in_use(const std::vector<stage_snapshot>& all, const optimizer& rule);
/// As "NAME.momentum".
named_tensors optimizer_state_of(const std::vector<stage_snapshot>& all);

/// What minibatches hand on, of all columns, of the pieces among a snapshot's tensors; "none" where there are none.
/// Throws penstock::error, `what` before the reason, for pieces that do not fit together.
tensor carried_in(const named_tensors& tensors, const segment_state& carried, memory_pool& pool,
                  const std::string& what);
/// The same of every tensor that is carried, by name.
named_tensors carried_of(const std::vector<stage_snapshot>& all, const model& net, memory_pool& pool);

/// Gradients of the run's first update, plain, by parameter name; on rank 0, the others send theirs.
named_tensors collect_first_gradients(const pipeline& p, std::map<int, stage_copy> here, bundle_transfers* transfers,
                                      memory_pool& pool);

/// Every stage's BatchNorm statistics for evaluation, in the order of segment::states(): the mean over all replicas.
/// Empty for stages that this rank does not host.
std::vector<std::vector<tensor>> shared_mean_states(const pipeline& p, const std::map<int, stage_copy>& here,
                                                    bundle_transfers* transfers);

} // namespace penstock::actors
