// SHA-256 of files and of named tensors.
#pragma once

#include "kernels/safetensors.hpp"

#include <span>
#include <string>
#include <string_view>

namespace penstock::actors {

/// Hexadecimal SHA-256 of the tensors' plain bytes in name order (f32 as f32; no names or shapes).
std::string sha256_of(const named_tensors& tensors);
std::string sha256_of_text(std::string_view text);
/// Of a regular file; throws penstock::error that names it when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

} // namespace penstock::actors
