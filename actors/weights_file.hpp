// Weights in and out of one safetensors file with the ecosystem's names.
#pragma once

#include "actors/pipeline.hpp"

namespace penstock::actors {

/// Reads a file of parameters and BatchNorm statistics into the pipeline. Missing, unexpected and mis-shaped names are
/// listed apart in one line (penstock::usage_error) unless `allow_partial`, which returns that line as a note instead
/// and leaves what is missing as it was initialised. num_batches_tracked may always be missing.
std::string read_weights(pipeline& p, const std::filesystem::path& file, bool allow_partial);

/// Parameters and the replicas' mean statistics.
void save_weights(pipeline& p, const std::filesystem::path& file);

/// Gradients of the run's first update, by parameter name.
void save_first_gradients(pipeline& p, const std::filesystem::path& file);

/// Copies a plain tensor into another of the same shape and type.
void copy_plain(const tensor& from, tensor& to);

} // namespace penstock::actors
