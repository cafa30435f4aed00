// Layer normalisation.
#include "kernels/layers/layer_norm.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/normalisation_ops.hpp"

#include <algorithm>

namespace penstock::layers {

namespace {

class layer_norm_layer final : public vetted_layer {
public:
  explicit layer_norm_layer(layer_norm_options options) : options_(std::move(options)), args_{options_.epsilon} {
    if (options_.normalized.empty()) throw usage_error("layer_norm: normalized is [], at least one axis is wanted");
    for (const std::int64_t extent : options_.normalized)
      expect_at_least(1, extent, "layer_norm: normalized");
    if (!(options_.epsilon > 0))
      throw usage_error("layer_norm: epsilon is " + number_text(options_.epsilon) + ", more than 0 is wanted");
  }

  std::string_view kind() const override { return "layer_norm"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}});
    const shape& x = inputs[0].dims;
    const shape& last = options_.normalized;
    if (x.size() <= last.size() ||
        !std::equal(last.begin(), last.end(), x.end() - static_cast<std::ptrdiff_t>(last.size())))
      throw usage_error("input has shape " + to_string(x) + ", [N, ...] that ends in " + to_string(last) +
                        " is wanted");
    return {inputs[0]};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    std::vector<parameter_spec> specs{{"weight", options_.normalized, {initializer_kind::constant, 1.0F}, true}};
    if (options_.bias) specs.push_back({"bias", options_.normalized, {initializer_kind::constant, 0.0F}, true});
    return specs;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    auto normalised = context.ops.get<normalisation_ops>().layer_norm_forward(args_, inputs[0], weights[0],
                                                                              options_.bias ? weights[1] : tensor{});
    forward_result result;
    result.outputs.push_back(std::move(normalised.y));
    if (context.mode == phase::training)
      result.saved = {std::move(inputs[0]), std::move(normalised.mean), std::move(normalised.inverse_deviation)};
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    layer_gradients gradients = context.ops.get<normalisation_ops>().layer_norm_backward(
        saved[0], weights[0], options_.bias, {.y = {}, .mean = saved[1], .inverse_deviation = saved[2]},
        std::move(output_gradients[0]), wants_gradient(context, 0), context.need_weight_gradient);
    backward_result result;
    result.input_gradients.push_back(std::move(gradients.input));
    result.weight_gradients = parameter_gradients(std::move(gradients), options_.bias);
    return result;
  }

  /// For each element: sums for mean and variance, the difference, two products and a sum.
  double forward_flops(std::span<const tensor_spec> inputs) const override {
    return 8.0 * static_cast<double>(element_count(inputs[0].dims));
  }

private:
  layer_norm_options options_;
  layer_norm_args args_;
};

} // namespace

layer_ptr layer_norm(layer_norm_options options) {
  return std::make_shared<layer_norm_layer>(std::move(options));
}

} // namespace penstock::layers
