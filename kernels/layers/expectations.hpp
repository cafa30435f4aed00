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

/// What one input must be: its type, and its axes by name. "[N, C, H, W]" wants as many axes as it has names, "[N,
/// ...]" at least those before the dots, none at all any shape.
struct input_rule {
  dtype type = dtype::f32;
  std::string_view axes{};
};
inline constexpr input_rule images{dtype::f32, "[N, C, H, W]"};
inline constexpr input_rule sequences{dtype::f32, "[N, T, F]"};

/// Throws usage_error unless there are as many inputs as rules and each is as its rule says, in one line: "2 inputs, 1
/// is wanted"; "input is U8, F32 is wanted"; with several, counted from 0, "input 1 is I64, F32 is wanted"; "input has
/// shape [4], [N, C, H, W] is wanted".
void expect_inputs(std::span<const tensor_spec> inputs, std::initializer_list<input_rule> rules);
/// The same for any number of inputs under one rule; "1 input, 2 or more are wanted" where there are less than `least`.
void expect_all_inputs(std::span<const tensor_spec> inputs, std::size_t least, const input_rule& rule);
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

/// Tells whoever may be told (run_context::tells) of an index outside [0, below): "[layer] NAME: WHAT 31000 at row 3,
/// PLACE 17; wanted 0 to 30521", the row along axis 0.
void refuse_outside(run_context& context, const tensor& indices, std::int64_t below, const std::string& what,
                    const std::string& place = "position");

/// The shape with another extent of the last axis.
shape with_last(shape dims, std::int64_t extent);
/// (..., features) -> (rows, features), plain: the same bytes where x is plain.
tensor as_rows(backend& ops, tensor x);
/// And back: rows as a tensor of those extents in the activation format; none stays none.
tensor from_rows(backend& ops, tensor rows, const shape& dims, memory_use use);

/// A layer's parameter gradients in the order of parameters(): weight, and bias if it has one.
std::vector<tensor> parameter_gradients(layer_gradients&& gradients, bool has_bias);

/// The input's part of the backward of a layer that multiplies by its weights: keeps its input, saved[0], and the
/// output gradient, from which a ReLU computed within, whose result is saved[1], is taken first. `input_gradient` makes
/// it of the latter.
template <class InputGradient>
backward_input_result split_product(run_context& context, bool relu, tensor output_gradient,
                                    std::span<const tensor> saved, InputGradient input_gradient) {
  if (relu) output_gradient = context.ops.get<elementwise_ops>().relu_backward(saved[1], std::move(output_gradient));
  backward_input_result result;
  result.input_gradients.push_back(wants_gradient(context, 0) ? input_gradient(output_gradient) : tensor{});
  if (context.need_weight_gradient) result.kept = {saved[0], std::move(output_gradient)};
  return result;
}

/// A tensor that carries a shape and no bytes, for a backward that needs an input's extents but none of its values.
tensor remember_shape(backend& ops, const shape& dims);

} // namespace penstock::layers
