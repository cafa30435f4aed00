// Two activation functions that Penstock does not have, as custom layers in plain loops.
#pragma once

#include "kernels/layer.hpp"

namespace custom_layer {

/// y = f(x) for each element: one f32 input, one output of the same shape. f(0) must be 0, since the loops run over
/// everything stored and blocked layouts are padded with zeros that must stay zero.
class element_wise : public penstock::layer {
public:
  std::vector<penstock::tensor_spec> infer(std::span<const penstock::tensor_spec> inputs) const override;
  penstock::forward_result forward(penstock::run_context& context, std::span<penstock::tensor> inputs,
                                   std::span<const penstock::tensor> weights) const override;
  penstock::backward_result backward(penstock::run_context& context, std::span<penstock::tensor> output_gradients,
                                     std::span<const penstock::tensor> weights,
                                     std::span<const penstock::tensor> saved) const override;

protected:
  virtual float value(float x) const = 0;
  virtual float derivative(float x) const = 0;
};

/// x * sigmoid(beta * x) (Ramachandran, Zoph and Le, 2017).
class swish : public element_wise {
public:
  explicit swish(float beta) : beta_(beta) {}
  std::string_view kind() const override { return "swish"; }

protected:
  float value(float x) const override;
  float derivative(float x) const override;

private:
  float beta_;
};

/// x where x > 0, slope * x elsewhere.
class leaky_relu : public element_wise {
public:
  explicit leaky_relu(float slope) : slope_(slope) {}
  std::string_view kind() const override { return "leaky_relu"; }

protected:
  float value(float x) const override { return x > 0 ? x : slope_ * x; }
  float derivative(float x) const override { return x > 0 ? 1.0F : slope_; }

private:
  float slope_;
};

} // namespace custom_layer
