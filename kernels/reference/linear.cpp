// y = x W^T + b and its gradients, by the definition.
#include "kernels/reference/plain_index.hpp"
#include "kernels/reference/reference_linear.hpp"
#include "kernels/reference/relu.hpp"

namespace penstock {

format_ptr reference_linear::linear_weight_format(const shape&, const shape&) {
  return nullptr;
}

tensor reference_linear::linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) {
  const std::int64_t inputs = weight.dim(1), outputs = weight.dim(0), samples = x.elements() / inputs;
  shape dims = x.dims();
  dims.back() = outputs;
  tensor y = memory_.allocate_activation(dims);
  const float* from = x.data<float>();
  const float* w = weight.data<float>();
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = bias ? bias.data<float>()[o] : 0.0F;
      for (std::int64_t i = 0; i < inputs; ++i)
        sum += static_cast<double>(from[n * inputs + i]) * w[o * inputs + i];
      const auto value = static_cast<float>(sum);
      y.data<float>()[n * outputs + o] = relu ? relu_of(value) : value;
    }
  return y;
}

layer_gradients reference_linear::linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y,
                                                  bool relu, tensor dy, bool want_dx, bool want_dw) {
  if (relu) dy = relu_backward(memory_, y, std::move(dy));
  const std::int64_t inputs = weight.dim(1), outputs = weight.dim(0), samples = x.elements() / inputs;
  const float* from = x.data<float>();
  const float* w = weight.data<float>();
  const float* g = dy.data<float>();
  layer_gradients result;
  if (want_dx) { // dx = dy W
    result.input = memory_.allocate_activation(x.dims());
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t i = 0; i < inputs; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < outputs; ++o)
          sum += static_cast<double>(g[n * outputs + o]) * w[o * inputs + i];
        result.input.data<float>()[n * inputs + i] = static_cast<float>(sum);
      }
  }
  if (want_dw) { // dW = dy^T x
    result.weight = memory_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t i = 0; i < inputs; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < samples; ++n)
          sum += static_cast<double>(g[n * outputs + o]) * from[n * inputs + i];
        result.weight.data<float>()[o * inputs + i] = static_cast<float>(sum);
      }
  }
  if (want_dw && has_bias) {
    result.bias = memory_.allocate(dtype::f32, {outputs}, memory_use::gradients);
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::int64_t n = 0; n < samples; ++n)
        sum += g[n * outputs + o];
      result.bias.data<float>()[o] = static_cast<float>(sum);
    }
  }
  return result;
}

} // namespace penstock
