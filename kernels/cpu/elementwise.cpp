// Element-wise operations on all stored elements; padding stays zero since each of them maps zeros to zero.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_elementwise.hpp"
#include "kernels/cpu/relu.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/finite.hpp"

namespace penstock {

void onednn_elementwise::accumulate(tensor& into, const tensor& x) {
  check(into.dims() == x.dims(), "accumulate needs equal shapes");
  const tensor other = context_.in_format(x, into.format());
  float* sum = into.data<float>();
  const float* addend = other.data<float>();
  element_loop(into.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
      sum[i] += addend[i];
  });
}

tensor onednn_elementwise::scaled(const tensor& x, float factor) {
  const tensor plain = context_.in_format(x, nullptr);
  tensor y = context_.allocate(dtype::f32, x.dims(), memory_use::scratch);
  const float* in = plain.data<float>();
  float* out = y.data<float>();
  element_loop(y.elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = in[i] * factor;
  });
  return y;
}

tensor onednn_elementwise::find_nonfinite(const tensor& x) {
  tensor found = context_.allocate(dtype::f64, {2}, memory_use::scratch);
  const auto first = is_finite(x) ? nonfinite_value() : penstock::find_nonfinite(context_.in_format(x, nullptr));
  found.data<double>()[0] = static_cast<double>(first.place);
  found.data<double>()[1] = first.value;
  return found;
}

tensor onednn_elementwise::add(tensor a, const tensor& b, bool relu) {
  check(a.dims() == b.dims(), "add needs equal shapes");
  const tensor other = context_.in_format(b, a.format());
  tensor y = a.is_unique() ? a : context_.allocate(dtype::f32, a.dims(), memory_use::activations, a.format());
  const float* left = a.data<float>();
  const float* right = other.data<float>();
  float* out = y.data<float>();
  if (relu)
    element_loop(y.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const float sum = left[i] + right[i];
        out[i] = relu_of(sum);
      }
    });
  else
    element_loop(y.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        out[i] = left[i] + right[i];
    });
  return y;
}

tensor relu_forward(onednn_context& context, tensor x) {
  tensor y = x.is_unique() ? x : context.allocate(dtype::f32, x.dims(), memory_use::activations, x.format());
  const float* in = x.data<float>();
  float* out = y.data<float>();
  element_loop(y.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = relu_of(in[i]);
  });
  return y;
}

tensor relu_backward(onednn_context& context, const tensor& y, tensor dy) {
  check(y.dims() == dy.dims(), "relu_backward needs equal shapes");
  if (!same_format(y.format(), dy.format())) dy = context.reorder(dy, y.format(), memory_use::gradients);
  tensor dx = dy.is_unique() ? dy : context.allocate(dtype::f32, y.dims(), memory_use::gradients, y.format());
  const float* gate = y.data<float>();
  const float* in = dy.data<float>();
  float* out = dx.data<float>();
  element_loop(y.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const float g = in[i];
      out[i] = gate[i] > 0.0F ? g : 0.0F;
    }
  });
  return dx;
}

tensor onednn_elementwise::relu_forward(tensor x) {
  return penstock::relu_forward(context_, std::move(x));
}

tensor onednn_elementwise::relu_backward(const tensor& y, tensor dy) {
  return penstock::relu_backward(context_, y, std::move(dy));
}

} // namespace penstock
