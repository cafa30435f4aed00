// Brings what other programs write into a weights file to a model's own names.
#pragma once

#include "kernels/model.hpp"
#include "kernels/safetensors.hpp"

#include <functional>
#include <set>

namespace penstock {

struct adapted_weights {
  std::set<std::string> drawn; ///< parameters that may be missing: they start as without a file
  std::string note;            ///< one line: what is drawn, what of the file is not used; "" where all fits
};

/// Renames, adds and takes out tensors of the file's. Throws usage_error for names that become one.
using weights_adapter = std::function<adapted_weights(const model& net, safetensors_contents& file)>;

/// Files may have a parameter under any of its names (model::aliases), or under several with equal values: it is left
/// under its own. Throws usage_error for values that differ.
void take_aliases(const model& net, safetensors_contents& file);

} // namespace penstock
