// Smooth activations by their formulas, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/activation_ops.hpp"

namespace penstock {

class reference_activation final : public activation_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_activation(backend& memory) : memory_(memory) {}

  tensor activate(activation_kind kind, tensor x) override;
  tensor activate_backward(activation_kind kind, const tensor& kept, tensor dy) override;
  tensor softmax(tensor x) override;
  tensor softmax_backward(const tensor& y, tensor dy) override;

private:
  backend& memory_;
};

} // namespace penstock
