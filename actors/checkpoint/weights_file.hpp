// Weights in and out of one safetensors file with the ecosystem's names.
#pragma once

#include "actors/ranks/stage_snapshot.hpp"
#include "kernels/weights_adapter.hpp"

namespace penstock::actors {

struct weights_source {
  std::filesystem::path file;
  std::string prefix{};       ///< taken off the names that begin with it: "module."
  bool allow_partial = false; ///< load what fits
  weights_adapter adapt{};    ///< of other spellings, after the prefix is off; may be empty
};

struct weights_contents {
  stage_snapshot whole; ///< the model as one stage; what is missing stays as it was initialised
  std::string note;     ///< what does not fit, where that is allowed; what is drawn anew
};

/// Reads a file of parameters and BatchNorm statistics. Missing, unexpected and mis-shaped names are listed apart in
/// one line (penstock::usage_error), with the prefix to take off where that is what they lack, unless `allow_partial`,
/// which makes that line a note ("loaded 8 of 10 tensors ..."); where no parameter fits it is refused even so. Throws
/// penstock::error for values that are not finite and variances below 0. num_batches_tracked may always be missing.
/// Tensors come from `pool`.
weights_contents read_weights(std::shared_ptr<const model> net, const weights_source& from, memory_pool& pool);

/// Puts what is there into the stages on this rank, statistics into every replica.
void load_partial(pipeline& p, const std::vector<stage_snapshot>& given);

/// Parameters, averaged where the optimizer has averages, under all their names (model::aliases), and the replicas' mean
/// statistics.
void save_weights(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net, const optimizer& rule,
                  const std::filesystem::path& file);

/// Copies a plain tensor into another of the same shape and type.
void copy_plain(const tensor& from, tensor& to);

} // namespace penstock::actors
