// Two-dimensional convolution (cross-correlation, as every framework says) and its gradients, by the definition.
#include "kernels/reference/plain_index.hpp"
#include "kernels/reference/reference_convolution.hpp"
#include "kernels/reference/relu.hpp"
#include "kernels/window.hpp"

namespace penstock {

namespace {

// Calls visit(input element, weight element) for every product that output (n, o, oh, ow) sums.
template <class Visit>
void for_each_tap(const conv2d_args& args, const extents4& x, const extents4& w, std::int64_t n, std::int64_t o,
                  std::int64_t oh, std::int64_t ow, Visit visit) {
  const std::int64_t first_channel = o / (w.n / args.groups) * w.c; // w.n: outputs, w.c: input channels of a group
  for (std::int64_t c = 0; c < w.c; ++c)
    for (std::int64_t kh = 0; kh < w.h; ++kh)
      for (std::int64_t kw = 0; kw < w.w; ++kw) {
        const std::int64_t ih = oh * args.stride[0] - args.padding[0] + kh * args.dilation[0];
        const std::int64_t iw = ow * args.stride[1] - args.padding[1] + kw * args.dilation[1];
        if (ih < 0 || ih >= x.h || iw < 0 || iw >= x.w) continue; // padding is zero
        visit(x.at(n, first_channel + c, ih, iw), w.at(o, c, kh, kw));
      }
}

template <class Visit>
void for_each_output(const extents4& y, Visit visit) {
  for (std::int64_t n = 0; n < y.n; ++n)
    for (std::int64_t o = 0; o < y.c; ++o)
      for (std::int64_t h = 0; h < y.h; ++h)
        for (std::int64_t w = 0; w < y.w; ++w)
          visit(n, o, h, w);
}

} // namespace

format_ptr reference_convolution::conv2d_weight_format(const conv2d_args&, const shape&, const shape&) {
  return nullptr;
}

tensor reference_convolution::conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                             const tensor& bias, bool relu) {
  const extents4 xe(x.dims());
  const extents4 we(weight.dims());
  tensor y = memory_.allocate_activation({xe.n, we.n,
                                          window_count(xe.h, we.h, args.stride[0], args.padding[0], args.dilation[0]),
                                          window_count(xe.w, we.w, args.stride[1], args.padding[1], args.dilation[1])});
  const extents4 ye(y.dims());
  const float* from = x.data<float>();
  const float* w = weight.data<float>();
  float* to = y.data<float>();
  for_each_output(ye, [&](auto n, auto o, auto oh, auto ow) {
    double sum = bias ? bias.data<float>()[o] : 0.0F;
    for_each_tap(args, xe, we, n, o, oh, ow, [&](auto i, auto k) { sum += static_cast<double>(from[i]) * w[k]; });
    const auto value = static_cast<float>(sum);
    to[ye.at(n, o, oh, ow)] = relu ? relu_of(value) : value;
  });
  return y;
}

layer_gradients reference_convolution::conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                                       bool has_bias, const tensor& y, bool relu, tensor dy,
                                                       bool want_dx, bool want_dw) {
  if (relu) dy = relu_backward(memory_, y, std::move(dy));
  const extents4 xe(x.dims());
  const extents4 we(weight.dims());
  const extents4 ye(dy.dims());
  std::vector<double> dx(static_cast<std::size_t>(x.elements()));
  std::vector<double> dw(static_cast<std::size_t>(weight.elements()));
  std::vector<double> db(static_cast<std::size_t>(we.n));
  const float* from = x.data<float>();
  const float* w = weight.data<float>();
  const float* g = dy.data<float>();
  for_each_output(ye, [&](auto n, auto o, auto oh, auto ow) {
    const double gradient = g[ye.at(n, o, oh, ow)];
    db[static_cast<std::size_t>(o)] += gradient;
    for_each_tap(args, xe, we, n, o, oh, ow, [&](auto i, auto k) {
      dx[static_cast<std::size_t>(i)] += gradient * w[k];
      dw[static_cast<std::size_t>(k)] += gradient * from[i];
    });
  });
  layer_gradients result;
  if (want_dx) {
    result.input = memory_.allocate_activation(x.dims());
    std::copy(dx.begin(), dx.end(), result.input.data<float>());
  }
  if (want_dw) {
    result.weight = memory_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    std::copy(dw.begin(), dw.end(), result.weight.data<float>());
  }
  if (want_dw && has_bias) {
    result.bias = memory_.allocate(dtype::f32, {we.n}, memory_use::gradients);
    std::copy(db.begin(), db.end(), result.bias.data<float>());
  }
  return result;
}

} // namespace penstock
