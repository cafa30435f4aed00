// Smooth activations: GELU, tanh, the logistic function.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/activation_ops.hpp"

#include <optional>

namespace penstock::layers {

enum class gelu_form : std::uint8_t { erf, tanh };

/// Of any shape, each element by itself. `erf` is the exact form (Hugging Face's "gelu"), `tanh` the approximation of
/// Google's BERT ("gelu_new").
layer_ptr gelu(gelu_form form = gelu_form::erf);
layer_ptr tanh();
layer_ptr sigmoid();

/// Which of the layers above it is, for layers before it that can compute it within themselves; nothing for others.
std::optional<activation_kind> activation_of(const layer& op);

} // namespace penstock::layers
