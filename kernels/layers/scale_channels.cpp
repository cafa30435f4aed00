// A batch normalisation by a mean of 0 and a variance of 1.
#include "kernels/layers/scale_channels.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/normalisation_ops.hpp"

#include <algorithm>

namespace penstock::layers {

namespace {

class scale_channels_layer final : public vetted_layer {
public:
  scale_channels_layer(std::vector<float> scale, std::vector<float> shift)
      : scale_(std::move(scale)), shift_(std::move(shift)) {
    check(!scale_.empty() && scale_.size() == shift_.size(), "a scale and a shift for each channel");
  }

  std::string_view kind() const override { return "scale_channels"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    if (inputs[0].dims[1] != channels())
      throw usage_error("input has " + std::to_string(inputs[0].dims[1]) + " channels, " + std::to_string(channels()) +
                        " are wanted");
    return {inputs[0]};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    result.outputs.push_back(scaled(context.ops, inputs[0], shift_));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] = scaled(context.ops, output_gradients[0], std::vector<float>(shift_.size()));
    return result;
  }

private:
  std::int64_t channels() const { return static_cast<std::int64_t>(scale_.size()); }

  tensor constants(backend& ops, const std::vector<float>& values) const {
    auto t = ops.allocate(dtype::f32, {channels()}, memory_use::scratch);
    ops.on_host({}, {t}, [values](std::span<const tensor>, std::span<const tensor> results) {
      std::copy(values.begin(), values.end(), tensor(results[0]).data<float>());
    });
    return t;
  }

  tensor scaled(backend& ops, const tensor& x, const std::vector<float>& shift) const {
    const std::vector<float> ones(scale_.size(), 1.0F), zeros(scale_.size());
    return ops.get<normalisation_ops>().batch_norm2d_inference({.epsilon = 0}, x, constants(ops, scale_),
                                                               constants(ops, shift), constants(ops, zeros),
                                                               constants(ops, ones), false);
  }

  std::vector<float> scale_, shift_;
};

} // namespace

layer_ptr scale_channels(std::vector<float> scale, std::vector<float> shift) {
  return std::make_shared<scale_channels_layer>(std::move(scale), std::move(shift));
}

} // namespace penstock::layers
