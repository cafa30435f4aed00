// Max and average pooling.
#include "kernels/layers/pool2d.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/window.hpp"

namespace penstock::layers {

namespace {

class pool2d_layer final : public vetted_layer {
public:
  explicit pool2d_layer(pool2d_args args) : args_(args) {
    expect_at_least(1, args_.kernel, "pool2d: kernel");
    expect_at_least(1, args_.stride, "pool2d: stride");
    expect_at_least(0, args_.padding, "pool2d: padding");
    for (std::size_t axis = 0; axis < 2; ++axis) // else a window could lie in the padding alone
      if (args_.padding[axis] > args_.kernel[axis] / 2)
        throw usage_error("pool2d: padding " + std::to_string(args_.padding[axis]) + " is more than half of kernel " +
                          std::to_string(args_.kernel[axis]));
  }

  std::string_view kind() const override { return args_.kind == pool_kind::max ? "max_pool2d" : "average_pool2d"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    const shape& x = inputs[0].dims;
    shape y{x[0], x[1], 0, 0};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      y[2 + axis] =
          pool_window_count(x[2 + axis], args_.kernel[axis], args_.stride[axis], args_.padding[axis], args_.ceil_mode);
      if (y[2 + axis] < 1)
        throw usage_error("input " + extent_text(x[2], x[3]) + " is smaller than kernel " +
                          extent_text(args_.kernel[0], args_.kernel[1]));
    }
    return {{dtype::f32, y}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    const bool training = context.mode == phase::training;
    pool_result pooled = context.ops.get<convolution_ops>().pool2d_forward(args_, inputs[0], training);
    forward_result result;
    result.outputs.push_back(std::move(pooled.y));
    if (training) result.saved = {remember_shape(context.ops, inputs[0].dims()), std::move(pooled.workspace)};
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<convolution_ops>().pool2d_backward(args_, saved[0].dims(), saved[1], output_gradients[0]);
    return result;
  }

private:
  pool2d_args args_;
};

} // namespace

layer_ptr pool2d(pool2d_args args) {
  return std::make_shared<pool2d_layer>(args);
}

} // namespace penstock::layers
