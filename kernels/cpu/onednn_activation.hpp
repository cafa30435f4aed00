// Smooth activations in vectorised loops.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/activation_ops.hpp"

namespace penstock {

class onednn_activation final : public activation_ops {
public:
  explicit onednn_activation(onednn_context& context) : context_(context) {}

  tensor activate(activation_kind kind, tensor x) override;
  tensor activate_backward(activation_kind kind, const tensor& kept, tensor dy) override;
  tensor softmax(tensor x) override;
  tensor softmax_backward(const tensor& y, tensor dy) override;

private:
  onednn_context& context_;
};

} // namespace penstock
