// Dropout with one mask for all time steps, which can be had again: nothing is kept for the backward.
#include "kernels/layers/locked_dropout.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/recurrent_ops.hpp"

namespace penstock::layers {

namespace {

class locked_dropout_layer final : public vetted_layer {
public:
  explicit locked_dropout_layer(float p) : p_(p) {
    if (!(p >= 0 && p < 1))
      throw usage_error("locked_dropout: rate is " + number_text(p) + ", at least 0 and less than 1 is wanted");
  }

  std::string_view kind() const override { return "locked_dropout"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {sequences});
    return {inputs[0]};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    const bool drops = context.mode == phase::training && p_ > 0;
    result.outputs.push_back(drops ? context.ops.get<recurrent_ops>().locked_dropout(context.random, p_, inputs[0])
                                   : std::move(inputs[0]));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          p_ > 0 ? context.ops.get<recurrent_ops>().locked_dropout(context.random, p_, output_gradients[0])
                 : std::move(output_gradients[0]);
    return result;
  }

private:
  float p_;
};

} // namespace

layer_ptr locked_dropout(float p) {
  return std::make_shared<locked_dropout_layer>(p);
}

} // namespace penstock::layers
