// Softmax over the last axis.
#include "kernels/layers/softmax.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/activation_ops.hpp"

namespace penstock::layers {

namespace {

class softmax_layer final : public vetted_layer {
public:
  std::string_view kind() const override { return "softmax"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{dtype::f32, "[N, ...]"}});
    return {inputs[0]};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    result.outputs.push_back(context.ops.get<activation_ops>().softmax(std::move(inputs[0])));
    if (context.mode == phase::training) result.saved.push_back(result.outputs[0]);
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<activation_ops>().softmax_backward(saved[0], std::move(output_gradients[0]));
    return result;
  }
};

} // namespace

layer_ptr softmax() {
  return std::make_shared<softmax_layer>();
}

} // namespace penstock::layers
