// What layers check before they agree to a place in a model, each with one clear line.
#pragma once

#include "kernels/layer.hpp"

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

/// A tensor that carries a shape and no bytes, for a backward that needs an input's extents but none of its values.
tensor remember_shape(backend& ops, const shape& dims);

} // namespace penstock::layers
