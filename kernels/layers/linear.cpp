// Fully connected layer.
#include "kernels/layers/linear.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/ops/linear_ops.hpp"

namespace penstock::layers {

namespace {

class linear_layer final : public vetted_layer {
public:
  linear_layer(linear_options options, bool relu) : options_(std::move(options)), relu_(relu) {
    expect_at_least(1, options_.in_features, "linear: in_features");
    expect_at_least(1, options_.out_features, "linear: out_features");
  }

  std::string_view kind() const override { return relu_ ? "linear+relu" : "linear"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{dtype::f32, "[N, features]"}});
    const shape& x = inputs[0].dims;
    if (x[1] != options_.in_features)
      throw usage_error("input has " + std::to_string(x[1]) + " features, " + std::to_string(options_.in_features) +
                        " are wanted");
    return {{dtype::f32, {x[0], options_.out_features}}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    const initializer usual = default_uniform(options_.in_features);
    std::vector<parameter_spec> specs{{"weight", weight_dims(), options_.weight_init.value_or(usual), false}};
    if (options_.bias) specs.push_back({"bias", {options_.out_features}, options_.bias_init.value_or(usual), true});
    return specs;
  }

  format_ptr parameter_format(backend& ops, std::size_t parameter, std::span<const tensor_spec> inputs) const override {
    return parameter == 0 ? ops.get<linear_ops>().linear_weight_format(inputs[0].dims, weight_dims()) : nullptr;
  }

  layer_ptr try_fuse(const layer& next) const override {
    return !relu_ && is_relu(next) ? std::make_shared<linear_layer>(options_, true) : nullptr;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    forward_result result;
    result.outputs.push_back(context.ops.get<linear_ops>().linear_forward(
        inputs[0], weights[0], options_.bias ? weights[1] : tensor{}, relu_));
    if (context.mode == phase::training) {
      result.saved.push_back(std::move(inputs[0]));
      if (relu_) result.saved.push_back(result.outputs[0]);
    }
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    layer_gradients gradients = context.ops.get<linear_ops>().linear_backward(
        saved[0], weights[0], options_.bias, relu_ ? saved[1] : tensor{}, relu_, std::move(output_gradients[0]),
        wants_gradient(context, 0), context.need_weight_gradient);
    backward_result result;
    result.input_gradients.push_back(std::move(gradients.input));
    result.weight_gradients = parameter_gradients(std::move(gradients), options_.bias);
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    return split_product(context, relu_, std::move(output_gradients[0]), saved, [&](const tensor& dy) {
      return context.ops.get<linear_ops>()
          .linear_backward(saved[0], weights[0], options_.bias, {}, false, dy, true, false)
          .input;
    });
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor> weights,
                                      std::span<tensor> kept) const override {
    return parameter_gradients(context.ops.get<linear_ops>().linear_backward(kept[0], weights[0], options_.bias, {},
                                                                             false, std::move(kept[1]), false, true),
                               options_.bias);
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    return 2.0 * static_cast<double>(inputs[0].dims[0] * options_.in_features * options_.out_features);
  }

private:
  shape weight_dims() const { return {options_.out_features, options_.in_features}; }

  linear_options options_;
  bool relu_; // computed within
};

} // namespace

layer_ptr linear(linear_options options) {
  return std::make_shared<linear_layer>(std::move(options), false);
}

} // namespace penstock::layers
