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
  // By the host's loops, whatever the device is. It may run later, when this layer is only held by its model.
  context.ops.on_host({x}, {y}, [this](std::span<const tensor> in, std::span<const tensor> out) {
    const float* from = in[0].data<float>();
    float* to = out[0].data<float>();
    const std::int64_t stored = in[0].stored_elements(); // asks the layout, so once
    for (std::int64_t i = 0; i < stored; ++i)
      to[i] = value(from[i]);
  });
  if (context.mode == penstock::phase::evaluation) return {{y}, {}};
  return {{y}, {x}};
}

penstock::backward_result element_wise::backward(penstock::run_context& context, std::span<tensor> output_gradients,
                                                 std::span<const tensor>, std::span<const tensor> saved) const {
  if (!context.need_input_gradient.at(0)) return {{tensor{}}, {}};
  const tensor& x = saved[0];
  const tensor dy = context.ops.reorder(output_gradients[0], x.format(), penstock::memory_use::gradients);
  tensor dx = context.ops.allocate(penstock::dtype::f32, x.dims(), penstock::memory_use::gradients, x.format());
  context.ops.on_host({x, dy}, {dx}, [this](std::span<const tensor> in, std::span<const tensor> out) {
    const float* at = in[0].data<float>();
    const float* from = in[1].data<float>();
    float* to = out[0].data<float>();
    const std::int64_t stored = in[0].stored_elements();
    for (std::int64_t i = 0; i < stored; ++i)
      to[i] = from[i] * derivative(at[i]);
  });
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
