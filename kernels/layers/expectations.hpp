// What layers check before they agree to a place in a model, each with one clear line.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/layer_gradients.hpp"

namespace penstock::layers {

/// Of the layers that come with Penstock: their arithmetic makes no NaN of finite numbers.
class vetted_layer : public layer {
public:
  bool keeps_finite() const final { return true; }
};

/// Throws usage_error unless there are `count` inputs, all f32 ("2 inputs, 1 is wanted"; "input is U8, F32 is wanted").
void expect_inputs(std::span<const tensor_spec> inputs, std::size_t count);
/// Throws usage_error unless the input is (N, C, H, W).
void expect_images(const tensor_spec& input);
/// Throws usage_error "WHAT is VALUE, at least LEAST is wanted".
void expect_at_least(std::int64_t least, std::int64_t value, const std::string& what);
void expect_at_least(std::int64_t least, std::array<std::int64_t, 2> values, const std::string& what);

/// "0.1", not "0.100000"
std::string number_text(float value);
/// "3x5"
std::string extent_text(std::int64_t height, std::int64_t width);

/// Is the gradient of this input wanted? An empty list wants all.
inline bool wants_gradient(const run_context& context, std::size_t input) {
  return input >= context.need_input_gradient.size() || context.need_input_gradient[input];
}

/// PyTorch's default for weights and biases: uniform within 1 / sqrt(fan_in).
initializer default_uniform(std::int64_t fan_in);

/// A layer's parameter gradients in the order of parameters(): weight, and bias if it has one.
std::vector<tensor> parameter_gradients(layer_gradients&& gradients, bool has_bias);

/// The input's part of the backward of a layer that multiplies by its weights: keeps its input, saved[0], and the
/// output gradient, from which a fused ReLU, whose result is saved[1], is taken first. `input_gradient` makes it of the
/// latter.
template <class InputGradient>
backward_input_result split_product(run_context& context, tensor output_gradient, std::span<const tensor> saved,
                                    InputGradient input_gradient) {
  if (context.fused_relu)
    output_gradient = context.ops.get<elementwise_ops>().relu_backward(saved[1], std::move(output_gradient));
  backward_input_result result;
  result.input_gradients.push_back(wants_gradient(context, 0) ? input_gradient(output_gradient) : tensor{});
  if (context.need_weight_gradient) result.kept = {saved[0], std::move(output_gradient)};
  return result;
}

/// A tensor that carries a shape and no bytes, for a backward that needs an input's extents but none of its values.
tensor remember_shape(backend& ops, const shape& dims);

} // namespace penstock::layers
