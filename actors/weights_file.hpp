// Weights in and out of one safetensors file with the ecosystem's names.
#pragma once

#include "actors/ranks/stage_snapshot.hpp"

namespace penstock::actors {

struct weights_contents {
  stage_snapshot whole; ///< the model as one stage; what is missing stays as it was initialised
  std::string note;     ///< what does not fit, where that is allowed
};

/// Reads a file of parameters and BatchNorm statistics. Missing, unexpected and mis-shaped names are
/// listed apart in one line (penstock::usage_error) unless `allow_partial`, which makes that line a note instead.
/// num_batches_tracked may always be missing. Tensors come from `pool`.
weights_contents read_weights(std::shared_ptr<const model> net, const std::filesystem::path& file, bool allow_partial,
                              memory_pool& pool);

/// Puts what is there into the stages on this rank, statistics into every replica.
void load_partial(pipeline& p, const std::vector<stage_snapshot>& given);

/// Parameters and the replicas' mean statistics.
void save_weights(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net,
                  const std::filesystem::path& file);

/// Copies a plain tensor into another of the same shape and type.
void copy_plain(const tensor& from, tensor& to);

} // namespace penstock::actors
