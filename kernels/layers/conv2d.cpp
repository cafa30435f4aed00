// Two-dimensional convolution.
#include "kernels/layers/conv2d.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/window.hpp"

namespace penstock::layers {

namespace {

class conv2d_layer final : public vetted_layer {
public:
  conv2d_layer(conv2d_options options, bool relu) : options_(std::move(options)), relu_(relu) {
    const conv2d_args& args = options_.args;
    expect_at_least(1, options_.in_channels, "conv2d: in_channels");
    expect_at_least(1, options_.out_channels, "conv2d: out_channels");
    expect_at_least(1, options_.kernel, "conv2d: kernel");
    expect_at_least(1, args.stride, "conv2d: stride");
    expect_at_least(0, args.padding, "conv2d: padding");
    expect_at_least(1, args.dilation, "conv2d: dilation");
    expect_at_least(1, args.groups, "conv2d: groups");
    expect_multiple_of_groups(options_.in_channels, "in_channels");
    expect_multiple_of_groups(options_.out_channels, "out_channels");
  }

  std::string_view kind() const override { return relu_ ? "conv2d+relu" : "conv2d"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    const shape& x = inputs[0].dims;
    if (x[1] != options_.in_channels)
      throw usage_error("input has " + std::to_string(x[1]) + " channels, " + std::to_string(options_.in_channels) +
                        " are wanted");
    shape y{x[0], options_.out_channels, 0, 0};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      y[2 + axis] = window_count(x[2 + axis], options_.kernel[axis], options_.args.stride[axis],
                                 options_.args.padding[axis], options_.args.dilation[axis]);
      if (y[2 + axis] < 1) throw usage_error(too_small(x));
    }
    return {{dtype::f32, y}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    const shape dims = weight_dims();
    const initializer usual = default_uniform(dims[1] * dims[2] * dims[3]);
    std::vector<parameter_spec> specs{{"weight", dims, options_.weight_init.value_or(usual), false}};
    if (options_.bias) specs.push_back({"bias", {dims[0]}, options_.bias_init.value_or(usual), true});
    return specs;
  }

  format_ptr parameter_format(backend& ops, std::size_t parameter, std::span<const tensor_spec> inputs) const override {
    if (parameter != 0) return nullptr;
    return ops.get<convolution_ops>().conv2d_weight_format(options_.args, inputs[0].dims, weight_dims());
  }

  layer_ptr try_fuse(const layer& next) const override {
    return !relu_ && is_relu(next) ? std::make_shared<conv2d_layer>(options_, true) : nullptr;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    forward_result result;
    result.outputs.push_back(
        context.ops.get<convolution_ops>().conv2d_forward(options_.args, inputs[0], weights[0], bias(weights), relu_));
    if (context.mode == phase::training) {
      result.saved.push_back(std::move(inputs[0]));
      if (relu_) result.saved.push_back(result.outputs[0]);
    }
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    layer_gradients gradients = context.ops.get<convolution_ops>().conv2d_backward(
        options_.args, saved[0], weights[0], options_.bias, relu_ ? saved[1] : tensor{}, relu_,
        std::move(output_gradients[0]), wants_gradient(context, 0), context.need_weight_gradient);
    backward_result result;
    result.input_gradients.push_back(std::move(gradients.input));
    result.weight_gradients = parameter_gradients(std::move(gradients), options_.bias);
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    return split_product(context, relu_, std::move(output_gradients[0]), saved, [&](const tensor& dy) {
      return context.ops.get<convolution_ops>()
          .conv2d_backward(options_.args, saved[0], weights[0], options_.bias, {}, false, dy, true, false)
          .input;
    });
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor> weights,
                                      std::span<tensor> kept) const override {
    return parameter_gradients(context.ops.get<convolution_ops>().conv2d_backward(options_.args, kept[0], weights[0],
                                                                                  options_.bias, {}, false,
                                                                                  std::move(kept[1]), false, true),
                               options_.bias);
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    const shape w = weight_dims();
    return 2.0 * static_cast<double>(element_count(infer(inputs)[0].dims)) * static_cast<double>(w[1] * w[2] * w[3]);
  }

private:
  shape weight_dims() const {
    return {options_.out_channels, options_.in_channels / options_.args.groups, options_.kernel[0], options_.kernel[1]};
  }
  tensor bias(std::span<const tensor> weights) const { return options_.bias ? weights[1] : tensor{}; }

  void expect_multiple_of_groups(std::int64_t channels, const std::string& what) const {
    if (channels % options_.args.groups != 0)
      throw usage_error("conv2d: " + what + " " + std::to_string(channels) + " is not a multiple of groups " +
                        std::to_string(options_.args.groups));
  }

  std::string too_small(const shape& x) const {
    const conv2d_args& args = options_.args;
    std::string text = "input " + extent_text(x[2], x[3]);
    if (args.padding != std::array<std::int64_t, 2>{0, 0})
      text += " with padding " + extent_text(args.padding[0], args.padding[1]);
    return text + " is smaller than kernel " +
           extent_text(dilated_extent(options_.kernel[0], args.dilation[0]),
                       dilated_extent(options_.kernel[1], args.dilation[1]));
  }

  conv2d_options options_;
  bool relu_; // computed within
};

} // namespace

layer_ptr conv2d(conv2d_options options) {
  return std::make_shared<conv2d_layer>(std::move(options), false);
}

} // namespace penstock::layers
