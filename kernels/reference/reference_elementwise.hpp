// Every element by itself, in plain loops. Bodies are in elementwise.cpp and arrange.cpp.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/elementwise_ops.hpp"

namespace penstock {

class reference_elementwise final : public elementwise_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_elementwise(backend& memory) : memory_(memory) {}

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
  backend& memory_;
};

} // namespace penstock
