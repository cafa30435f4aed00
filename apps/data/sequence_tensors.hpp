// Samples of a sequence model from named tensors, for comparisons with other frameworks: values go in as they are.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"
#include "kernels/safetensors.hpp"

#include <memory>

namespace penstock::apps {

/// A tensor (N, ...) for each input of `net`, by its name: F32, or I64 or I32 where the model has integers. Axes whose
/// extent varies have that of the tensors in all minibatches. In their order, never shuffled; other tensors are left
/// alone. What losses are divided by is counted in their labels. Throws error, `where` in front, for what is missing,
/// of another type or shape, and for numbers out of range.
std::unique_ptr<actors::dataset> sequence_tensors(const model& net, named_tensors tensors, const std::string& where);

/// The same of a safetensors file.
std::unique_ptr<actors::dataset> open_sequence_tensors(const std::string& file, const model& net);

} // namespace penstock::apps
