// Knows by their first bytes the files that people take for safetensors files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// How much of a file's beginning other_file_kind() looks at.
inline constexpr std::size_t file_kind_bytes = 512;

/// "a PyTorch checkpoint; convert it with: ...": what a file is that begins so, with the way to convert it where there
/// is one; "" when it is none of those known, a safetensors file among them.
std::string other_file_kind(std::string_view start);

} // namespace penstock
