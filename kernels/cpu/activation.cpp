// GELU, tanh, the logistic function and softmax: loops for the widest vectors of the machine.
#include "kernels/check.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/onednn_activation.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/cpu/vector_math.hpp"

namespace penstock {

namespace {

constexpr float tanh_slope = 0.79788456080286536F; // sqrt(2 / pi)

// Calls run with a function of one value, so that each activation has a loop of its own.
template <class Run>
void with_value(activation_kind kind, const Run& run) {
  switch (kind) {
  case activation_kind::gelu_erf:
    return run([](float x) PENSTOCK_VECTORIZED { return x * normal_at(x).below; });
  case activation_kind::gelu_tanh:
    return run([](float x) PENSTOCK_VECTORIZED {
      return 0.5F * x * (1.0F + tanh_of(tanh_slope * (x + 0.044715F * x * x * x)));
    });
  case activation_kind::tanh:
    return run([](float x) PENSTOCK_VECTORIZED { return tanh_of(x); });
  case activation_kind::sigmoid:
    return run([](float x) PENSTOCK_VECTORIZED { return sigmoid_of(x); });
  }
}

template <class Run>
void with_slope(activation_kind kind, const Run& run) {
  switch (kind) {
  case activation_kind::gelu_erf:
    return run([](float x) PENSTOCK_VECTORIZED {
      const auto at = normal_at(x);
      return at.below + x * at.density;
    });
  case activation_kind::gelu_tanh:
    return run([](float x) PENSTOCK_VECTORIZED {
      const float t = tanh_of(tanh_slope * (x + 0.044715F * x * x * x));
      return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * tanh_slope * (1.0F + 3.0F * 0.044715F * x * x);
    });
  case activation_kind::tanh:
    return run([](float y) PENSTOCK_VECTORIZED { return 1.0F - y * y; });
  case activation_kind::sigmoid:
    return run([](float y) PENSTOCK_VECTORIZED { return y * (1.0F - y); });
  }
}

constexpr std::int64_t serial_below = 1 << 13; // elements that are not worth a team of threads

std::int64_t rows_below(std::int64_t length) {
  return std::max<std::int64_t>(2, serial_below / std::max<std::int64_t>(length, 1));
}

} // namespace

tensor onednn_activation::activate(activation_kind kind, tensor x) {
  const format_ptr format = x.format();
  // The logistic function of padding is not zero.
  if (kind == activation_kind::sigmoid) x = context_.reorder(x, nullptr, memory_use::activations);
  tensor y = x.is_unique() ? x : context_.allocate(dtype::f32, x.dims(), memory_use::activations, x.format());
  const float* in = x.data<float>();
  float* out = y.data<float>();
  with_value(kind, [&](auto value) {
    vector_loop(y.stored_elements(), 64, serial_below, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        out[i] = value(in[i]);
    });
  });
  return context_.reorder(y, format, memory_use::activations);
}

tensor onednn_activation::activate_backward(activation_kind kind, const tensor& kept, tensor dy) {
  check(kept.dims() == dy.dims(), "activate_backward needs equal shapes");
  if (!same_format(kept.format(), dy.format())) dy = context_.reorder(dy, kept.format(), memory_use::gradients);
  tensor dx = dy.is_unique() ? dy : context_.allocate(dtype::f32, dy.dims(), memory_use::gradients, dy.format());
  const float *at = kept.data<float>(), *in = dy.data<float>();
  float* out = dx.data<float>();
  with_slope(kind, [&](auto slope) {
    vector_loop(dx.stored_elements(), 64, serial_below, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        out[i] = in[i] * slope(at[i]);
    });
  });
  return dx;
}

tensor onednn_activation::softmax(tensor x) {
  const format_ptr format = x.format();
  x = context_.reorder(x, nullptr, memory_use::activations);
  const std::int64_t length = x.dims().back(), rows = x.elements() / std::max<std::int64_t>(length, 1);
  tensor y = x.is_unique() ? x : context_.allocate(dtype::f32, x.dims(), memory_use::activations);
  const float* from = x.data<float>();
  float* to = y.data<float>();
  vector_loop(rows, 1, rows_below(length), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = from + r * length;
      float* out = to + r * length;
      const float greatest = greatest_of(in, length);
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i)
        out[i] = exp_of(in[i] - greatest);
      const float sum = sum_of(out, length);
      const float share = 1.0F / sum;
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i)
        out[i] *= share;
    }
  });
  return context_.reorder(y, format, memory_use::activations);
}

tensor onednn_activation::softmax_backward(const tensor& y, tensor dy) {
  check(y.dims() == dy.dims(), "softmax_backward needs equal shapes");
  const format_ptr format = y.format();
  const tensor plain = context_.in_format(y, nullptr);
  dy = context_.reorder(dy, nullptr, memory_use::gradients);
  const std::int64_t length = y.dims().back(), rows = y.elements() / std::max<std::int64_t>(length, 1);
  tensor dx = dy.is_unique() ? dy : context_.allocate(dtype::f32, dy.dims(), memory_use::gradients);
  const float *shares = plain.data<float>(), *gradients = dy.data<float>();
  float* to = dx.data<float>();
  vector_loop(rows, 1, rows_below(length), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t r = begin; r < end; ++r) {
      const float *p = shares + r * length, *g = gradients + r * length;
      float* out = to + r * length;
      const float sum = dot_of(p, g, length);
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i)
        out[i] = p[i] * (g[i] - sum);
    }
  });
  return context_.reorder(dx, format, memory_use::gradients);
}

} // namespace penstock
