// Average pooling to a given extent, whatever the input's.
#include "kernels/layers/adaptive_average_pool2d.hpp"

#include "kernels/layers/expectations.hpp"
#include "kernels/ops/convolution_ops.hpp"

namespace penstock::layers {

namespace {

class adaptive_average_pool2d_layer final : public vetted_layer {
public:
  explicit adaptive_average_pool2d_layer(std::array<std::int64_t, 2> output) : output_(output) {
    expect_at_least(1, output_, "adaptive_average_pool2d: output");
  }

  std::string_view kind() const override { return "adaptive_average_pool2d"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    const shape& x = inputs[0].dims;
    return {{dtype::f32, {x[0], x[1], output_[0], output_[1]}}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    result.outputs.push_back(context.ops.get<convolution_ops>().adaptive_average_pool2d_forward(inputs[0], output_));
    if (context.mode == phase::training) result.saved.push_back(remember_shape(context.ops, inputs[0].dims()));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<convolution_ops>().adaptive_average_pool2d_backward(saved[0].dims(), output_gradients[0]);
    return result;
  }

private:
  std::array<std::int64_t, 2> output_;
};

} // namespace

layer_ptr adaptive_average_pool2d(std::array<std::int64_t, 2> output) {
  return std::make_shared<adaptive_average_pool2d_layer>(output);
}

} // namespace penstock::layers
