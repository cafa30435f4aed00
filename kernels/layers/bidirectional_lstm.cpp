// Two directions, each the operation of one, side by side. Only their joint output is kept.
#include "kernels/layers/bidirectional_lstm.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/recurrent_ops.hpp"

#include <array>

namespace penstock::layers {

namespace {

constexpr std::size_t directions = 2, weights_each = 4;

lstm_args direction_args(std::size_t direction) {
  return {.reverse = direction == 1};
}

lstm_weights direction_weights(std::span<const tensor> weights, std::size_t direction) {
  const auto own = weights.subspan(direction * weights_each);
  return {.input = own[0], .hidden = own[1], .bias = own[2], .second_bias = own[3]};
}

tensor side_by_side(backend& ops, const tensor& a, const tensor& b) {
  const std::int64_t rows = a.dim(0) * a.dim(1), hidden = a.dim(2);
  const std::array<tensor, directions> parts{a.reshaped({rows, hidden}), b.reshaped({rows, hidden})};
  return ops.get<elementwise_ops>().concat(parts).reshaped({a.dim(0), a.dim(1), 2 * hidden});
}

std::vector<tensor> taken_apart(backend& ops, const tensor& y) {
  const std::int64_t hidden = y.dim(2) / 2;
  const std::array<std::int64_t, directions> widths{hidden, hidden};
  auto parts = ops.get<elementwise_ops>().split(y.reshaped({y.dim(0) * y.dim(1), 2 * hidden}), widths);
  for (tensor& part : parts)
    part = part.reshaped({y.dim(0), y.dim(1), hidden});
  return parts;
}

class bidirectional_lstm_layer final : public vetted_layer {
public:
  bidirectional_lstm_layer(std::int64_t hidden, bidirectional_lstm_options options)
      : hidden_(hidden), options_(options) {
    expect_at_least(1, hidden, "bidirectional_lstm: hidden");
  }

  std::string_view kind() const override { return "bidirectional_lstm"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {sequences, {dtype::i64, "[N]"}});
    const shape& x = inputs[0].dims;
    if (inputs[1].dims[0] != x[0])
      throw usage_error("lengths has shape " + to_string(inputs[1].dims) + ", " + to_string(shape{x[0]}) +
                        " is wanted");
    return {{dtype::f32, {x[0], x[1], 2 * hidden_}}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec> inputs) const override {
    const initializer usual = default_uniform(hidden_), weight = options_.weight_init.value_or(usual);
    std::vector<parameter_spec> specs;
    for (const std::string direction : {"", "_reverse"}) {
      specs.push_back({"weight_ih_l0" + direction, {4 * hidden_, inputs[0].dims.at(2)}, weight, false});
      specs.push_back({"weight_hh_l0" + direction, {4 * hidden_, hidden_}, weight, false});
      specs.push_back({"bias_ih_l0" + direction, {4 * hidden_}, options_.bias_ih_init.value_or(usual), true});
      specs.push_back({"bias_hh_l0" + direction, {4 * hidden_}, options_.bias_hh_init.value_or(usual), true});
    }
    return specs;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    refuse_outside(context, inputs[1], inputs[0].dim(1) + 1, "length");
    const bool trains = context.mode == phase::training;
    std::array<lstm_result, directions> made;
    for (std::size_t d = 0; d < directions; ++d)
      made[d] = context.ops.get<recurrent_ops>().lstm_forward(direction_args(d), {.x = inputs[0], .lengths = inputs[1]},
                                                              direction_weights(weights, d), trains);
    forward_result result;
    result.outputs.push_back(side_by_side(context.ops, made[0].y, made[1].y));
    if (trains)
      result.saved = {inputs[0],     inputs[1],     result.outputs[0], made[0].gates,
                      made[0].cells, made[1].gates, made[1].cells};
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    auto first = backward_input(context, output_gradients, weights, saved);
    backward_result result{std::move(first.input_gradients), {}};
    result.weight_gradients = context.need_weight_gradient ? backward_weight(context, weights, first.kept)
                                                           : std::vector<tensor>(directions * weights_each);
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    const auto dy = taken_apart(context.ops, output_gradients[0]);
    std::array<lstm_input_gradients, directions> gradients;
    for (std::size_t d = 0; d < directions; ++d) // y is not read in this part
      gradients[d] = context.ops.get<recurrent_ops>().lstm_backward_input(
          direction_args(d), {.x = saved[0], .lengths = saved[1]}, direction_weights(weights, d),
          {.y = {}, .h = {}, .c = {}, .gates = saved[3 + 2 * d], .cells = saved[4 + 2 * d]}, dy[d],
          wants_gradient(context, 0));
    backward_input_result result;
    result.input_gradients.resize(2);
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<elementwise_ops>().add(std::move(gradients[0].x), gradients[1].x, false);
    if (context.need_weight_gradient)
      result.kept = {saved[0], saved[1], saved[2], std::move(gradients[0].gates), std::move(gradients[1].gates)};
    return result;
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor>,
                                      std::span<tensor> kept) const override {
    const auto y = taken_apart(context.ops, kept[2]);
    std::vector<tensor> result;
    for (std::size_t d = 0; d < directions; ++d) {
      auto gradients = context.ops.get<recurrent_ops>().lstm_backward_weight(
          direction_args(d), {.x = kept[0], .lengths = kept[1]}, y[d], kept[3 + d], true);
      result.push_back(std::move(gradients.input));
      result.push_back(std::move(gradients.hidden));
      result.push_back(context.ops.copy(gradients.bias, memory_use::gradients));
      result.push_back(std::move(gradients.bias));
    }
    return result;
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    const shape& x = inputs[0].dims;
    return 16.0 * static_cast<double>(x[0] * x[1] * hidden_) * static_cast<double>(x[2] + hidden_);
  }

private:
  std::int64_t hidden_;
  bidirectional_lstm_options options_;
};

} // namespace

layer_ptr bidirectional_lstm(std::int64_t hidden, bidirectional_lstm_options options) {
  return std::make_shared<bidirectional_lstm_layer>(hidden, options);
}

} // namespace penstock::layers
