// Forward and backward of the two activation functions.
#include "activations.hpp"

#include "kernels/check.hpp"

#include <cmath>

namespace custom_layer {

using penstock::tensor;

std::vector<penstock::tensor_spec> element_wise::infer(std::span<const penstock::tensor_spec> inputs) const {
  if (inputs.size() != 1)
    throw penstock::usage_error(std::string(kind()) + " has " + std::to_string(inputs.size()) +
                                " inputs; it takes one");
  if (inputs[0].type != penstock::dtype::f32) throw penstock::usage_error(std::string(kind()) + " takes f32 only");
  return {inputs[0]};
}

penstock::forward_result element_wise::forward(penstock::run_context& context, std::span<tensor> inputs,
                                               std::span<const tensor>) const {
  const tensor x = std::move(inputs[0]);
  // The output has the input's layout, so stored elements correspond one to one, whatever that layout is.
  tensor y = context.ops.allocate(penstock::dtype::f32, x.dims(), penstock::memory_use::activations, x.format());
  const float* from = x.data<float>();
  float* to = y.data<float>();
  const std::int64_t stored = x.stored_elements(); // asks the layout, so once
  for (std::int64_t i = 0; i < stored; ++i)
    to[i] = value(from[i]);
  if (context.mode == penstock::phase::evaluation) return {{y}, {}};
  return {{y}, {x}};
}

penstock::backward_result element_wise::backward(penstock::run_context& context, std::span<tensor> output_gradients,
                                                 std::span<const tensor>, std::span<const tensor> saved) const {
  if (!context.need_input_gradient.at(0)) return {{tensor{}}, {}};
  const tensor& x = saved[0];
  const tensor dy = context.ops.reorder(output_gradients[0], x.format(), penstock::memory_use::gradients);
  tensor dx = context.ops.allocate(penstock::dtype::f32, x.dims(), penstock::memory_use::gradients, x.format());
  const float* at = x.data<float>();
  const float* from = dy.data<float>();
  float* to = dx.data<float>();
  const std::int64_t stored = x.stored_elements();
  for (std::int64_t i = 0; i < stored; ++i)
    to[i] = from[i] * derivative(at[i]);
  return {{dx}, {}};
}

float swish::value(float x) const {
  return x / (1.0F + std::exp(-beta_ * x));
}

float swish::derivative(float x) const {
  const float gate = 1.0F / (1.0F + std::exp(-beta_ * x));
  return gate + beta_ * x * gate * (1.0F - gate);
}

} // namespace custom_layer
