// Products of matrices.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class linear_algebra final : public linear_ops {
public:
  explicit linear_algebra(delayed_backend& device) : device_(device) {}

  format_ptr linear_weight_format(const shape&, const shape&) override { return nullptr; }

  tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) override {
    shape dims = x.dims();
    dims.back() = weight.dim(0);
    tensor y = device_.allocate_activation(dims);
    device_.ask({x, weight, bias}, {y}, [relu](backend& loops, auto& in) {
      return std::vector{loops.get<linear_ops>().linear_forward(in[0], in[1], in[2], relu)};
    });
    return y;
  }

  layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y, bool relu,
                                  tensor dy, bool want_dx, bool want_dw) override {
    layer_gradients result;
    if (want_dx) result.input = device_.allocate_activation(x.dims());
    if (want_dw) result.weight = device_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    if (want_dw && has_bias) result.bias = device_.allocate(dtype::f32, {weight.dim(0)}, memory_use::gradients);
    device_.ask({x, weight, y, dy}, {result.input, result.weight, result.bias}, [=](backend& loops, auto& in) {
      const auto d =
          loops.get<linear_ops>().linear_backward(in[0], in[1], has_bias, in[2], relu, in[3], want_dx, want_dw);
      return std::vector{d.input, d.weight, d.bias};
    });
    return result;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<linear_ops> delayed_linear(delayed_backend& device) {
  return std::make_shared<linear_algebra>(device);
}

} // namespace penstock::testing
