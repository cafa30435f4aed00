// The same model with its layers in another topological order, so that other stages are contiguous.
#pragma once

#include "kernels/model.hpp"

#include <string>
#include <vector>

namespace penstock {

/// Layers, names, parameters and random numbers stay what they are. Gradients of a tensor with several readers are
/// summed in the new order (DESIGN section 3), so sums may round otherwise. Throws usage_error when `order` is not all
/// of the model's layers, each once, or puts a layer before one that it reads.
model reordered(const model& m, const std::vector<std::string>& order);

} // namespace penstock
