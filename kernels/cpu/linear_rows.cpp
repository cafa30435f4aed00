// Fully connected layers of sequences: many rows, for which oneDNN 2.6's general products on plain matrices are as fast
// forward as its inner product on blocked weights, and up to twice as fast backward.
#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/onednn_linear.hpp"

namespace penstock {

tensor onednn_linear::rows_forward(const tensor& x, const tensor& weight, const tensor& bias) {
  const std::int64_t inputs = weight.dim(1), outputs = weight.dim(0), rows = x.elements() / inputs;
  shape dims = x.dims();
  dims.back() = outputs;
  const tensor weights = context_.in_format(weight, nullptr);
  tensor y = context_.allocate(dtype::f32, dims, memory_use::activations);
  float* to = y.data<float>();
  if (bias) {
    const float* from = bias.data<float>();
    vector_loop(rows, 1, (1 << 14) / outputs + 2, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      for (std::int64_t r = begin; r < end; ++r)
        std::copy_n(from, outputs, to + r * outputs);
    });
  }
  context_.multiply({.rows = rows,
                     .columns = outputs,
                     .depth = inputs,
                     .a = x.data<float>(),
                     .a_transposed = false,
                     .b = weights.data<float>(),
                     .b_transposed = true,
                     .c = to,
                     .add = static_cast<bool>(bias)});
  return y;
}

layer_gradients onednn_linear::rows_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& dy,
                                             bool want_dx, bool want_dw) {
  const std::int64_t inputs = weight.dim(1), outputs = weight.dim(0), rows = x.elements() / inputs;
  layer_gradients gradients;
  if (want_dx) {
    const tensor weights = context_.in_format(weight, nullptr);
    gradients.input = context_.allocate(dtype::f32, x.dims(), memory_use::gradients);
    context_.multiply({.rows = rows,
                       .columns = inputs,
                       .depth = outputs,
                       .a = dy.data<float>(),
                       .a_transposed = false,
                       .b = weights.data<float>(),
                       .b_transposed = false,
                       .c = gradients.input.data<float>(),
                       .add = false});
  }
  if (!want_dw) return gradients;
  const tensor dw = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  context_.multiply({.rows = outputs,
                     .columns = inputs,
                     .depth = rows,
                     .a = dy.data<float>(),
                     .a_transposed = true,
                     .b = x.data<float>(),
                     .b_transposed = false,
                     .c = dw.data<float>(),
                     .add = false});
  gradients.weight = context_.reorder(dw, weight.format(), memory_use::gradients);
  if (has_bias) {
    gradients.bias = context_.allocate(dtype::f32, {outputs}, memory_use::gradients);
    column_sums(context_, dy.data<float>(), rows, outputs, gradients.bias.data<float>());
  }
  return gradients;
}

} // namespace penstock
