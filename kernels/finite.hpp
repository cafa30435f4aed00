// Finds numbers that are none where they enter. Behind a ReLU or a maximum a NaN may look like 0, and no loss shows it.
#pragma once

#include "kernels/layer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace penstock {

/// Place of the first value that is NaN or infinite, or nothing. One pass at the speed of memory.
std::optional<std::size_t> first_nonfinite(std::span<const float> values);

/// "nan at [3, 0, 2]": the value at that place of row-major `dims`, for messages.
std::string value_text(float value, const shape& dims, std::size_t place);

/// The first of a plain tensor, counted row-major: its place and itself; place -1 where there is none.
struct nonfinite_value {
  std::int64_t place = -1;
  double value = 0;
};
nonfinite_value find_nonfinite(const tensor& plain);

/// Throws penstock::error "WHAT holds nan at [3, 0, 2]; wanted finite numbers" where elementwise_ops::find_nonfinite
/// has found one in a tensor of those dims; `found` is in the host's memory.
void require_none_found(const tensor& found, const shape& dims, const std::string& what);

/// True when no stored element of a floating tensor of any format is NaN or infinite; other types always are.
bool is_finite(const tensor& t);

/// Throws penstock::error "WHAT holds nan at [3, 0, 2]; wanted finite numbers" for a plain tensor that is not finite.
void require_finite(const tensor& t, const std::string& what);

/// The same, and for a state no value below what its layer can bear ("WHAT holds -1 at [2]; wanted at least 0").
void require_state(const tensor& t, const state_spec& spec, const std::string& what);

} // namespace penstock
