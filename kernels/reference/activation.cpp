// GELU, tanh, the logistic function and softmax by their formulas, in double.
#include "kernels/check.hpp"
#include "kernels/reference/reference_activation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock {

namespace {

const double tanh_slope = std::sqrt(2 / std::numbers::pi);

double value_of(activation_kind kind, double x) {
  switch (kind) {
  case activation_kind::gelu_erf:
    return x / 2 * std::erfc(-x / std::numbers::sqrt2);
  case activation_kind::gelu_tanh:
    return x / 2 * (1 + std::tanh(tanh_slope * (x + 0.044715 * x * x * x)));
  case activation_kind::tanh:
    return std::tanh(x);
  case activation_kind::sigmoid:
    break;
  }
  return 1 / (1 + std::exp(-x));
}

// At x, or where y is kept, at y.
double slope_of(activation_kind kind, double kept) {
  switch (kind) {
  case activation_kind::gelu_erf:
    return std::erfc(-kept / std::numbers::sqrt2) / 2 +
           kept * std::exp(-kept * kept / 2) / std::sqrt(2 * std::numbers::pi);
  case activation_kind::gelu_tanh: {
    const double t = std::tanh(tanh_slope * (kept + 0.044715 * kept * kept * kept));
    return (1 + t) / 2 + kept / 2 * (1 - t * t) * tanh_slope * (1 + 3 * 0.044715 * kept * kept);
  }
  case activation_kind::tanh:
    return 1 - kept * kept;
  case activation_kind::sigmoid:
    break;
  }
  return kept * (1 - kept);
}

} // namespace

tensor reference_activation::activate(activation_kind kind, tensor x) {
  tensor y = x.is_unique() ? x : memory_.allocate_activation(x.dims());
  for (std::int64_t i = 0; i < x.elements(); ++i)
    y.data<float>()[i] = static_cast<float>(value_of(kind, x.data<float>()[i]));
  return y;
}

tensor reference_activation::activate_backward(activation_kind kind, const tensor& kept, tensor dy) {
  check(kept.dims() == dy.dims(), "activate_backward: shapes differ");
  tensor dx = dy.is_unique() ? dy : memory_.allocate_activation(dy.dims());
  for (std::int64_t i = 0; i < dy.elements(); ++i)
    dx.data<float>()[i] = static_cast<float>(dy.data<float>()[i] * slope_of(kind, kept.data<float>()[i]));
  return dx;
}

tensor reference_activation::softmax(tensor x) {
  const std::int64_t length = x.dims().back();
  tensor y = x.is_unique() ? x : memory_.allocate_activation(x.dims());
  for (std::int64_t first = 0; first < x.elements(); first += length) {
    const float* from = x.data<float>() + first;
    const double greatest = *std::max_element(from, from + length);
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i)
      sum += std::exp(from[i] - greatest);
    for (std::int64_t i = 0; i < length; ++i)
      y.data<float>()[first + i] = static_cast<float>(std::exp(from[i] - greatest) / sum);
  }
  return y;
}

tensor reference_activation::softmax_backward(const tensor& y, tensor dy) {
  check(y.dims() == dy.dims(), "softmax_backward: shapes differ");
  const std::int64_t length = y.dims().back();
  tensor dx = dy.is_unique() ? dy : memory_.allocate_activation(dy.dims());
  for (std::int64_t first = 0; first < y.elements(); first += length) {
    const float *p = y.data<float>() + first, *g = dy.data<float>() + first;
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i)
      sum += static_cast<double>(p[i]) * g[i];
    for (std::int64_t i = 0; i < length; ++i)
      dx.data<float>()[first + i] = static_cast<float>(p[i] * (g[i] - sum));
  }
  return dx;
}

} // namespace penstock
