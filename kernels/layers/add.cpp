// Sum of two branches.
#include "kernels/layers/add.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/ops/elementwise_ops.hpp"

namespace penstock::layers {

namespace {

class add_layer final : public vetted_layer {
public:
  explicit add_layer(bool relu) : relu_(relu) {}

  std::string_view kind() const override { return relu_ ? "add+relu" : "add"; }
  layer_ptr try_fuse(const layer& next) const override {
    return !relu_ && is_relu(next) ? std::make_shared<add_layer>(true) : nullptr;
  }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}, {}});
    if (inputs[0].dims != inputs[1].dims)
      throw usage_error("inputs have shapes " + to_string(inputs[0].dims) + " and " + to_string(inputs[1].dims) +
                        ", equal ones are wanted");
    return {inputs[0]};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    // The sum is the same to the bit either way round; it goes into the operand that nobody else needs.
    const std::size_t reused = !inputs[0].is_unique() && inputs[1].is_unique() ? 1 : 0;
    forward_result result;
    result.outputs.push_back(
        context.ops.get<elementwise_ops>().add(std::move(inputs[reused]), inputs[1 - reused], relu_));
    if (context.mode == phase::training && relu_) result.saved.push_back(result.outputs[0]);
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.resize(2);
    if (!wants_gradient(context, 0) && !wants_gradient(context, 1)) return result;
    tensor dy = std::move(output_gradients[0]);
    if (relu_) dy = context.ops.get<elementwise_ops>().relu_backward(saved[0], std::move(dy));
    for (std::size_t i = 0; i < 2; ++i) // one gradient, two handles
      if (wants_gradient(context, i)) result.input_gradients[i] = dy;
    return result;
  }

private:
  bool relu_; // computed within
};

} // namespace

layer_ptr add() {
  return std::make_shared<add_layer>(false);
}

} // namespace penstock::layers
