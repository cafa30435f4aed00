// A run at rest on disk: per stage, atomic, readable by any other plan.
#pragma once

#include "actors/checkpoint/checkpoint_manifest.hpp"
#include "actors/ranks/stage_snapshot.hpp"

namespace penstock::actors {

/// Writes DIR/step-N: a safetensors file a stage and manifest.json with their lengths and SHA-256, first under a
/// temporary name, then renamed; then DIR/latest names it and its manifest's SHA-256. Keeps it and the one before.
/// Throws penstock::error; what was complete before stays complete. Returns the folder.
std::filesystem::path write_checkpoint(const std::vector<stage_snapshot>& stages, const checkpoint_position& at,
                                       const std::filesystem::path& dir);

struct saved_run {
  checkpoint_position at;
  std::vector<stage_snapshot> stages; ///< of the plan that wrote it
};

/// Reads DIR/latest, all of it checked. Throws usage_error when the checkpoint is of another model, data, seed, batch
/// or optimizer, and penstock::error when it is torn or unreadable. Tensors come from `pool`.
saved_run read_checkpoint(const checkpoint_position& wanted, const model& net, const std::filesystem::path& dir,
                          memory_pool& pool);

/// Puts it into what this rank hosts of a pipeline, whose plan may be another: weights, optimizer state and step
/// counts, BatchNorm statistics (each replica's own when the layer's replica count is the same, else the mean), what
/// minibatches handed on (all columns to each replica), versions. Throws penstock::error, which names `dir`, for what
/// is missing or misshaped.
void load_snapshots(pipeline& p, const std::vector<stage_snapshot>& saved, const std::filesystem::path& dir);

/// True when the folder has a complete checkpoint. Throws penstock::error when the system does not say.
bool has_checkpoint(const std::filesystem::path& dir);
/// Minibatches done at the checkpoint that a run would resume from. Throws penstock::error where none can be read.
std::int64_t step_of_checkpoint(const std::filesystem::path& dir);
/// Into how many blocks its run divides the batch columns (batching::column_blocks). Throws likewise.
int column_blocks_of_checkpoint(const std::filesystem::path& dir);
/// One line for who would write another run's checkpoints into it.
std::string refusal_of_used(const std::filesystem::path& dir);

} // namespace penstock::actors
