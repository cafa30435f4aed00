// Convolution and pooling.
#include "kernels/window.hpp"
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class convolution final : public convolution_ops {
public:
  explicit convolution(delayed_backend& device) : device_(device) {}

  format_ptr conv2d_weight_format(const conv2d_args&, const shape&, const shape&) override { return nullptr; }

  tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                        bool relu) override {
    const auto places = [&](std::size_t axis) {
      return window_count(x.dim(2 + axis), weight.dim(2 + axis), args.stride[axis], args.padding[axis],
                          args.dilation[axis]);
    };
    tensor y = device_.allocate_activation({x.dim(0), weight.dim(0), places(0), places(1)});
    device_.ask({x, weight, bias}, {y}, [args, relu](backend& loops, auto& in) {
      return std::vector{loops.get<convolution_ops>().conv2d_forward(args, in[0], in[1], in[2], relu)};
    });
    return y;
  }

  layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                  const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) override {
    layer_gradients result;
    if (want_dx) result.input = device_.allocate_activation(x.dims());
    if (want_dw) result.weight = device_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    if (want_dw && has_bias) result.bias = device_.allocate(dtype::f32, {weight.dim(0)}, memory_use::gradients);
    device_.ask({x, weight, y, dy}, {result.input, result.weight, result.bias}, [=](backend& loops, auto& in) {
      const auto d = loops.get<convolution_ops>().conv2d_backward(args, in[0], in[1], has_bias, in[2], relu, in[3],
                                                                  want_dx, want_dw);
      return std::vector{d.input, d.weight, d.bias};
    });
    return result;
  }

  pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) override {
    const auto places = [&](std::size_t axis) {
      return pool_window_count(x.dim(2 + axis), args.kernel[axis], args.stride[axis], args.padding[axis],
                               args.ceil_mode);
    };
    pool_result result;
    result.y = device_.allocate_activation({x.dim(0), x.dim(1), places(0), places(1)});
    if (training && args.kind == pool_kind::max)
      result.workspace = device_.allocate(dtype::i32, result.y.dims(), memory_use::activations);
    device_.ask({x}, {result.y, result.workspace}, [args, training](backend& loops, auto& in) {
      const auto pooled = loops.get<convolution_ops>().pool2d_forward(args, in[0], training);
      return std::vector{pooled.y, pooled.workspace};
    });
    return result;
  }

  tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace, const tensor& dy) override {
    tensor dx = device_.allocate_activation(x);
    device_.ask({workspace, dy}, {dx}, [args, x](backend& loops, auto& in) {
      return std::vector{loops.get<convolution_ops>().pool2d_backward(args, x, in[0], in[1])};
    });
    return dx;
  }

  tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) override {
    tensor y = device_.allocate_activation({x.dim(0), x.dim(1), output[0], output[1]});
    device_.ask({x}, {y}, [output](backend& loops, auto& in) {
      return std::vector{loops.get<convolution_ops>().adaptive_average_pool2d_forward(in[0], output)};
    });
    return y;
  }

  tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) override {
    tensor dx = device_.allocate_activation(x);
    device_.ask({dy}, {dx}, [x](backend& loops, auto& in) {
      return std::vector{loops.get<convolution_ops>().adaptive_average_pool2d_backward(x, in[0])};
    });
    return dx;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<convolution_ops> delayed_convolution(delayed_backend& device) {
  return std::make_shared<convolution>(device);
}

} // namespace penstock::testing
