// Branches side by side along the channels.
#include "kernels/layers/concat.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/elementwise_ops.hpp"

#include <algorithm>

namespace penstock::layers {

namespace {

class concat_layer final : public vetted_layer {
public:
  std::string_view kind() const override { return "concat"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_all_inputs(inputs, 2, {});
    shape y = inputs[0].dims;
    if (y.size() < 2) throw usage_error("input has shape " + to_string(y) + ", two axes or more are wanted");
    for (const tensor_spec& input : inputs.subspan(1)) {
      shape rest = input.dims;
      if (rest.size() == y.size()) rest[1] = y[1];
      if (rest != y)
        throw usage_error("inputs have shapes " + to_string(inputs[0].dims) + " and " + to_string(input.dims) +
                          ", equal ones but for the channels are wanted");
    }
    for (const tensor_spec& input : inputs.subspan(1))
      y[1] += input.dims[1];
    return {{dtype::f32, y}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    result.outputs.push_back(context.ops.get<elementwise_ops>().concat(inputs));
    if (context.mode == phase::training)
      for (const tensor& input : inputs)
        result.saved.push_back(remember_shape(context.ops, input.dims()));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    std::vector<std::int64_t> channels(saved.size());
    std::transform(saved.begin(), saved.end(), channels.begin(), [](const tensor& x) { return x.dim(1); });
    backward_result result;
    result.input_gradients = context.ops.get<elementwise_ops>().split(output_gradients[0], channels);
    for (std::size_t i = 0; i < result.input_gradients.size(); ++i)
      if (!wants_gradient(context, i)) result.input_gradients[i] = tensor{};
    return result;
  }
};

} // namespace

layer_ptr concat() {
  return std::make_shared<concat_layer>();
}

} // namespace penstock::layers
