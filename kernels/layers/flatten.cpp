// From images, or anything with a batch axis, to rows of features.
#include "kernels/layers/flatten.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"

namespace penstock::layers {

namespace {

class flatten_layer final : public vetted_layer {
public:
  std::string_view kind() const override { return "flatten"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}});
    if (inputs[0].dims.size() < 2)
      throw usage_error("input has shape " + to_string(inputs[0].dims) + ", two axes or more are wanted");
    return {{dtype::f32, flat(inputs[0].dims)}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    const tensor& x = inputs[0];
    forward_result result;
    result.outputs.push_back(context.ops.to_plain(x, memory_use::activations).reshaped(flat(x.dims())));
    if (context.mode == phase::training) result.saved.push_back(remember_shape(context.ops, x.dims()));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    const shape& x = saved[0].dims();
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.reorder(output_gradients[0].reshaped(x), context.ops.activation_format(x), memory_use::gradients);
    return result;
  }

private:
  static shape flat(const shape& dims) { return {dims[0], element_count(shape(dims.begin() + 1, dims.end()))}; }
};

} // namespace

layer_ptr flatten() {
  return std::make_shared<flatten_layer>();
}

} // namespace penstock::layers
