// Attention in vectorised loops over blocks of queries, a head of a sample to a thread.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/attention_ops.hpp"

namespace penstock {

class onednn_attention final : public attention_ops {
public:
  explicit onednn_attention(onednn_context& context) : context_(context) {}

  attention_result attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                     const tensor& lengths) override;
  std::vector<tensor> attention_backward(const attention_args& args, std::span<const tensor> qkv,
                                         const tensor& lengths, const tensor& log_sums, const tensor& dy) override;

private:
  onednn_context& context_;
};

} // namespace penstock
