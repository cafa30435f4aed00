// Layer normalisation of rows, and its gradients (Ba, Kiros and Hinton 2016).
#include "kernels/reference/reference_normalisation.hpp"

#include <cmath>

namespace penstock {

layer_norm_result reference_normalisation::layer_norm_forward(const layer_norm_args& args, const tensor& x,
                                                              const tensor& weight, const tensor& bias) {
  const std::int64_t length = weight.elements(), rows = x.elements() / length;
  layer_norm_result result;
  result.y = memory_.allocate_activation(x.dims());
  result.mean = memory_.allocate_activation({rows});
  result.inverse_deviation = memory_.allocate_activation({rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = x.data<float>() + r * length;
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i)
      sum += from[i];
    const double mean = sum / static_cast<double>(length);
    double squares = 0;
    for (std::int64_t i = 0; i < length; ++i)
      squares += (from[i] - mean) * (from[i] - mean);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(length) + static_cast<double>(args.epsilon));
    for (std::int64_t i = 0; i < length; ++i) {
      const double offset = bias ? bias.data<float>()[i] : 0.0F;
      result.y.data<float>()[r * length + i] =
          static_cast<float>((from[i] - mean) * inverse * weight.data<float>()[i] + offset);
    }
    result.mean.data<float>()[r] = static_cast<float>(mean);
    result.inverse_deviation.data<float>()[r] = static_cast<float>(inverse);
  }
  return result;
}

layer_gradients reference_normalisation::layer_norm_backward(const tensor& x, const tensor& weight, bool has_bias,
                                                             const layer_norm_result& saved, tensor dy, bool want_dx,
                                                             bool want_dw) {
  const std::int64_t length = weight.elements(), rows = x.elements() / length;
  const auto normalised = [&](std::int64_t r, std::int64_t i) {
    return (x.data<float>()[r * length + i] - static_cast<double>(saved.mean.data<float>()[r])) *
           saved.inverse_deviation.data<float>()[r];
  };
  layer_gradients result;
  if (want_dx) {
    result.input = memory_.allocate_activation(x.dims());
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto gradient = [&](std::int64_t i) {
        return static_cast<double>(dy.data<float>()[r * length + i]) * weight.data<float>()[i];
      };
      double sum = 0, projection = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        sum += gradient(i);
        projection += gradient(i) * normalised(r, i);
      }
      const auto count = static_cast<double>(length);
      for (std::int64_t i = 0; i < length; ++i)
        result.input.data<float>()[r * length + i] =
            static_cast<float>(saved.inverse_deviation.data<float>()[r] *
                               (gradient(i) - sum / count - normalised(r, i) * projection / count));
    }
  }
  if (!want_dw) return result;
  result.weight = memory_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  if (has_bias) result.bias = memory_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
  for (std::int64_t i = 0; i < length; ++i) {
    double scale_sum = 0, shift_sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double gradient = dy.data<float>()[r * length + i];
      scale_sum += gradient * normalised(r, i);
      shift_sum += gradient;
    }
    result.weight.data<float>()[i] = static_cast<float>(scale_sum);
    if (has_bias) result.bias.data<float>()[i] = static_cast<float>(shift_sum);
  }
  return result;
}

} // namespace penstock
