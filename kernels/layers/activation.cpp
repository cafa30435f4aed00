// Smooth activations: GELU, tanh, the logistic function.
#include "kernels/layers/activation.hpp"

#include "kernels/layers/expectations.hpp"

namespace penstock::layers {

namespace {

class activation_layer final : public vetted_layer {
public:
  explicit activation_layer(activation_kind activation) : activation_(activation) {}

  activation_kind activation() const { return activation_; }
  std::string_view kind() const override { return name_of(activation_); }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}});
    return {inputs[0]};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    tensor x = std::move(inputs[0]);
    forward_result result;
    const bool training = context.mode == phase::training;
    if (training && keeps_input(activation_)) result.saved.push_back(x);
    result.outputs.push_back(context.ops.get<activation_ops>().activate(activation_, std::move(x)));
    if (training && !keeps_input(activation_)) result.saved.push_back(result.outputs[0]);
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<activation_ops>().activate_backward(activation_, saved[0], std::move(output_gradients[0]));
    return result;
  }

private:
  activation_kind activation_;
};

} // namespace

layer_ptr gelu(gelu_form form) {
  return std::make_shared<activation_layer>(form == gelu_form::erf ? activation_kind::gelu_erf
                                                                   : activation_kind::gelu_tanh);
}

layer_ptr tanh() {
  return std::make_shared<activation_layer>(activation_kind::tanh);
}

layer_ptr sigmoid() {
  return std::make_shared<activation_layer>(activation_kind::sigmoid);
}

std::optional<activation_kind> activation_of(const layer& op) {
  const auto* known = dynamic_cast<const activation_layer*>(&op);
  return known == nullptr ? std::nullopt : std::optional(known->activation());
}

} // namespace penstock::layers
