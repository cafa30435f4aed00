// Tensors in and out of safetensors files. Files are treated as hostile.
#pragma once

#include "kernels/tensor.hpp"

#include <filesystem>
#include <map>

namespace penstock {

/// Named plain tensors in name order.
using named_tensors = std::map<std::string, tensor>;

struct safetensors_contents {
  named_tensors tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> converted; ///< tensors whose type in the file is not that in memory: "F16", "F64"
};

/// Reads a whole file into memory of `pool`; F16 and F64 become F32. Throws penstock::error naming the file and what is
/// wrong with it: another kind of file (named, with how to convert it where there is a way), header length, JSON, dtype
/// not ours, shape times size against offsets, overlaps, holes, trailing or missing bytes, duplicate keys, a header
/// over 100 MB, a finite F64 beyond F32.
safetensors_contents read_safetensors(const std::filesystem::path& file, memory_pool& pool,
                                      memory_use use = memory_use::scratch);

/// Writes plain tensors atomically (temporary file beside it, fsync, rename, fsync of the folder). Throws
/// penstock::error naming the file and the system's reason; then nothing is left behind.
void write_safetensors(const std::filesystem::path& file, const named_tensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

} // namespace penstock
