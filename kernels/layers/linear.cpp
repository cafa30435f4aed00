// Fully connected layer.
#include "kernels/layers/linear.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/activation.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/ops/linear_ops.hpp"

namespace penstock::layers {

namespace {

// What is computed within, behind the product.
struct behind {
  bool relu = false;
  std::optional<activation_kind> smooth{};

  bool none() const { return !relu && !smooth; }
};

class linear_layer final : public vetted_layer {
public:
  linear_layer(linear_options options, behind last) : options_(std::move(options)), behind_(last) {
    expect_at_least(1, options_.in_features, "linear: in_features");
    expect_at_least(1, options_.out_features, "linear: out_features");
    if (behind_.relu) kind_ += "+relu";
    if (behind_.smooth) kind_ += "+" + std::string(name_of(*behind_.smooth));
  }

  std::string_view kind() const override { return kind_; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}});
    const shape& x = inputs[0].dims;
    if (x.size() < 2) throw usage_error("input has shape " + to_string(x) + ", [N, ..., features] is wanted");
    if (x.back() != options_.in_features)
      throw usage_error("input has " + std::to_string(x.back()) + " features, " + std::to_string(options_.in_features) +
                        " are wanted");
    return {{dtype::f32, with_last(x, options_.out_features)}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    const initializer usual = default_uniform(options_.in_features);
    std::vector<parameter_spec> specs{
        {options_.weight_name, weight_dims(), options_.weight_init.value_or(usual), false}};
    if (options_.bias)
      specs.push_back(
          {options_.bias_name, {options_.out_features}, options_.bias_init.value_or(usual), true, options_.bias_rate});
    return specs;
  }

  format_ptr parameter_format(backend& ops, std::size_t parameter, std::span<const tensor_spec> inputs) const override {
    return parameter == 0 ? ops.get<linear_ops>().linear_weight_format(inputs[0].dims, weight_dims()) : nullptr;
  }

  layer_ptr try_fuse(const layer& next) const override {
    if (!behind_.none()) return nullptr;
    const behind last{is_relu(next), activation_of(next)};
    return last.none() ? nullptr : std::make_shared<linear_layer>(options_, last);
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    const shape dims = with_last(inputs[0].dims(), options_.out_features);
    tensor x = unblocked(context.ops, std::move(inputs[0]));
    tensor y = context.ops.get<linear_ops>().linear_forward(x, weights[0], options_.bias ? weights[1] : tensor{},
                                                            behind_.relu);
    const bool training = context.mode == phase::training;
    forward_result result;
    if (training) result.saved.push_back(std::move(x));
    if (behind_.smooth) {
      if (training && keeps_input(*behind_.smooth)) result.saved.push_back(y);
      y = context.ops.get<activation_ops>().activate(*behind_.smooth, std::move(y));
    }
    if (training && !behind_.none() && result.saved.size() == 1) result.saved.push_back(y);
    result.outputs.push_back(from_rows(context.ops, std::move(y), dims, memory_use::activations));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    const shape dims = with_last(output_gradients[0].dims(), options_.in_features);
    tensor dy = before_activation(context, std::move(output_gradients[0]), saved);
    layer_gradients gradients =
        context.ops.get<linear_ops>().linear_backward(saved[0], weights[0], options_.bias, {}, false, std::move(dy),
                                                      wants_gradient(context, 0), context.need_weight_gradient);
    backward_result result;
    result.input_gradients.push_back(from_rows(context.ops, std::move(gradients.input), dims, memory_use::gradients));
    result.weight_gradients = parameter_gradients(std::move(gradients), options_.bias);
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    const shape dims = with_last(output_gradients[0].dims(), options_.in_features);
    const tensor dy = before_activation(context, std::move(output_gradients[0]), saved);
    backward_input_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          from_rows(context.ops,
                    context.ops.get<linear_ops>()
                        .linear_backward(saved[0], weights[0], options_.bias, {}, false, dy, true, false)
                        .input,
                    dims, memory_use::gradients);
    if (context.need_weight_gradient) result.kept = {saved[0], dy};
    return result;
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor> weights,
                                      std::span<tensor> kept) const override {
    return parameter_gradients(context.ops.get<linear_ops>().linear_backward(kept[0], weights[0], options_.bias, {},
                                                                             false, std::move(kept[1]), false, true),
                               options_.bias);
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    return 2.0 * static_cast<double>(element_count(inputs[0].dims) * options_.out_features);
  }

private:
  shape weight_dims() const { return {options_.out_features, options_.in_features}; }

  // Plain, which four axes are not on every device: those become three.
  static tensor unblocked(backend& ops, tensor x) {
    if (x.rank() != 4) return x;
    const shape d = x.dims();
    return ops.to_plain(x, memory_use::activations).reshaped({d[0], d[1] * d[2], d[3]});
  }

  // The gradient of the product, of that of what comes behind it.
  tensor before_activation(run_context& context, tensor dy, std::span<const tensor> saved) const {
    dy = unblocked(context.ops, std::move(dy));
    if (behind_.relu) return context.ops.get<elementwise_ops>().relu_backward(saved[1], std::move(dy));
    if (behind_.smooth)
      return context.ops.get<activation_ops>().activate_backward(*behind_.smooth, saved[1], std::move(dy));
    return dy;
  }

  linear_options options_;
  behind behind_;
  std::string kind_ = "linear";
};

} // namespace

layer_ptr linear(linear_options options) {
  return std::make_shared<linear_layer>(std::move(options), behind{});
}

} // namespace penstock::layers
