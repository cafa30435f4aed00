// Element-wise loops for the widest vectors of the machine, and copies of channels.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/elementwise_ops.hpp"

namespace penstock {

/// Bodies are in elementwise.cpp, dropout.cpp and channel_copy.cpp.
class onednn_elementwise final : public elementwise_ops {
public:
  explicit onednn_elementwise(onednn_context& context) : context_(context) {}

  void accumulate(tensor& into, const tensor& x) override;
  tensor add(tensor a, const tensor& b, bool relu) override;
  tensor scaled(const tensor& x, float factor) override;
  tensor find_nonfinite(const tensor& x) override;
  tensor relu_forward(tensor x) override;
  tensor relu_backward(const tensor& y, tensor dy) override;
  tensor dropout(const random_key& key, float p, tensor x) override;
  tensor concat(std::span<const tensor> parts) override;
  std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) override;

private:
  bool has_whole_rows(const shape& whole, std::span<const std::int64_t> channels);

  onednn_context& context_;
};

} // namespace penstock
