// Batch normalisation over N, H, W of each channel, and its gradients (Ioffe and Szegedy 2015, section 3).
#include "kernels/reference/plain_index.hpp"
#include "kernels/reference/reference_normalisation.hpp"

#include <cmath>

namespace penstock {

namespace {

// Calls visit(element) for every element of channel c.
template <class Visit>
void for_each_of_channel(const extents4& x, std::int64_t c, Visit visit) {
  for (std::int64_t n = 0; n < x.n; ++n)
    for (std::int64_t i = 0; i < x.h * x.w; ++i)
      visit(x.at(n, c, 0, 0) + i);
}

double inverse_deviation(const batch_norm_args& args, double variance) {
  return 1.0 / std::sqrt(variance + static_cast<double>(args.epsilon));
}

} // namespace

batch_norm_result reference_normalisation::batch_norm2d_forward(const batch_norm_args& args, const tensor& x,
                                                                const tensor& scale, const tensor& shift, bool relu) {
  const extents4 xe(x.dims());
  const auto count = static_cast<double>(xe.n * xe.h * xe.w);
  batch_norm_result result;
  result.mean = memory_.allocate_activation({xe.c});
  result.variance = memory_.allocate_activation({xe.c});
  const float* from = x.data<float>();
  for (std::int64_t c = 0; c < xe.c; ++c) {
    double sum = 0;
    for_each_of_channel(xe, c, [&](auto i) { sum += from[i]; });
    const double mean = sum / count;
    double squares = 0;
    for_each_of_channel(xe, c, [&](auto i) { squares += (from[i] - mean) * (from[i] - mean); });
    result.mean.data<float>()[c] = static_cast<float>(mean);
    result.variance.data<float>()[c] = static_cast<float>(squares / count);
  }
  result.y = batch_norm2d_inference(args, x, scale, shift, result.mean, result.variance, relu);
  if (relu) { // a mask of bytes: y itself need not be kept
    result.workspace = memory_.allocate(dtype::u8, x.dims(), memory_use::activations);
    for (std::int64_t i = 0; i < x.elements(); ++i)
      result.workspace.data<std::uint8_t>()[i] = result.y.data<float>()[i] > 0 ? 1 : 0;
  }
  return result;
}

tensor reference_normalisation::batch_norm2d_inference(const batch_norm_args& args, const tensor& x,
                                                       const tensor& scale, const tensor& shift, const tensor& mean,
                                                       const tensor& variance, bool relu) {
  const extents4 xe(x.dims());
  tensor y = memory_.allocate_activation(x.dims());
  for (std::int64_t c = 0; c < xe.c; ++c) {
    const double center = mean.data<float>()[c];
    const double factor = scale.data<float>()[c] * inverse_deviation(args, variance.data<float>()[c]);
    const double offset = shift.data<float>()[c];
    for_each_of_channel(xe, c, [&](auto i) {
      const auto value = static_cast<float>((x.data<float>()[i] - center) * factor + offset);
      y.data<float>()[i] = relu ? relu_of(value) : value;
    });
  }
  return y;
}

layer_gradients reference_normalisation::batch_norm2d_backward(const batch_norm_args& args, const tensor& x,
                                                               const tensor& scale, const batch_norm_result& saved,
                                                               bool relu, tensor dy, bool want_dx) {
  const extents4 xe(x.dims());
  const auto count = static_cast<double>(xe.n * xe.h * xe.w);
  layer_gradients result;
  result.weight = memory_.allocate(dtype::f32, {xe.c}, memory_use::gradients);
  result.bias = memory_.allocate(dtype::f32, {xe.c}, memory_use::gradients);
  if (want_dx) result.input = memory_.allocate_activation(x.dims());
  const float* from = x.data<float>();
  const auto gradient = [&](std::int64_t i) -> double {
    return relu && saved.workspace.data<std::uint8_t>()[i] == 0 ? 0.0F : dy.data<float>()[i];
  };
  for (std::int64_t c = 0; c < xe.c; ++c) {
    const double mean = saved.mean.data<float>()[c];
    const double inverse = inverse_deviation(args, saved.variance.data<float>()[c]);
    const auto normalised = [&](std::int64_t i) { return (from[i] - mean) * inverse; };
    double shift_sum = 0;
    double scale_sum = 0;
    for_each_of_channel(xe, c, [&](auto i) {
      shift_sum += gradient(i);
      scale_sum += gradient(i) * normalised(i);
    });
    result.bias.data<float>()[c] = static_cast<float>(shift_sum);
    result.weight.data<float>()[c] = static_cast<float>(scale_sum);
    if (!want_dx) continue;
    const double factor = scale.data<float>()[c] * inverse;
    for_each_of_channel(xe, c, [&](auto i) {
      const double rest = gradient(i) - shift_sum / count - normalised(i) * scale_sum / count;
      result.input.data<float>()[i] = static_cast<float>(factor * rest);
    });
  }
  return result;
}

} // namespace penstock
