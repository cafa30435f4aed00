// Extents of a tensor, outermost first (N, C, H, W for images).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

using shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for rank 0.
std::int64_t element_count(const shape& dims);

/// As "[8, 3, 224, 224]".
std::string to_string(const shape& dims);

} // namespace penstock
