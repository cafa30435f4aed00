// Attention by its definition, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/attention_ops.hpp"

namespace penstock {

class reference_attention final : public attention_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_attention(backend& memory) : memory_(memory) {}

  attention_result attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                     const tensor& lengths) override;
  std::vector<tensor> attention_backward(const attention_args& args, std::span<const tensor> qkv,
                                         const tensor& lengths, const tensor& log_sums, const tensor& dy) override;

private:
  backend& memory_;
};

} // namespace penstock
