// Batch normalisation of images, with running statistics for evaluation.
#include "kernels/layers/batch_norm2d.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/ops/normalisation_ops.hpp"

#include <algorithm>

namespace penstock::layers {

namespace {

enum state_index : std::size_t { running_mean, running_var, num_batches_tracked };

class batch_norm2d_layer final : public vetted_layer {
public:
  batch_norm2d_layer(std::int64_t channels, batch_norm_args args, bool relu)
      : channels_(channels), args_(args), relu_(relu) {
    expect_at_least(1, channels_, "batch_norm2d: channels");
    if (!(args_.epsilon > 0))
      throw usage_error("batch_norm2d: epsilon is " + number_text(args_.epsilon) + ", more than 0 is wanted");
    if (!(args_.momentum >= 0 && args_.momentum <= 1))
      throw usage_error("batch_norm2d: momentum is " + number_text(args_.momentum) + ", 0 to 1 is wanted");
  }

  std::string_view kind() const override { return relu_ ? "batch_norm2d+relu" : "batch_norm2d"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    if (inputs[0].dims[1] != channels_)
      throw usage_error("input has " + std::to_string(inputs[0].dims[1]) + " channels, " + std::to_string(channels_) +
                        " are wanted");
    return {inputs[0]};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{"weight", {channels_}, {initializer_kind::constant, 1.0F}, true},
            {"bias", {channels_}, {initializer_kind::constant, 0.0F}, true}};
  }

  std::vector<state_spec> states(std::span<const tensor_spec>) const override {
    return {{"running_mean", dtype::f32, {channels_}, 0.0F},
            {"running_var", dtype::f32, {channels_}, 1.0F, 0.0F},
            {"num_batches_tracked", dtype::i64, {}, 0.0F}};
  }

  std::int64_t least_training_samples(std::span<const tensor_spec> inputs) const override {
    return inputs[0].dims[2] * inputs[0].dims[3] > 1 ? 1 : 2;
  }

  layer_ptr try_fuse(const layer& next) const override {
    return !relu_ && is_relu(next) ? std::make_shared<batch_norm2d_layer>(channels_, args_, true) : nullptr;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    forward_result result;
    if (context.mode == phase::evaluation) {
      result.outputs.push_back(context.ops.get<normalisation_ops>().batch_norm2d_inference(
          args_, inputs[0], weights[0], weights[1], context.state[running_mean], context.state[running_var], relu_));
      return result;
    }
    // One value is its own mean: the output would be the bias whatever comes in, as PyTorch refuses too.
    const auto& x = inputs[0].dims();
    if (x[0] * x[2] * x[3] == 1)
      throw error("batch_norm2d: input " + to_string(x) +
                  " has one value a channel, which has no variance; training wants at least 2");
    batch_norm_result normalised =
        context.ops.get<normalisation_ops>().batch_norm2d_forward(args_, inputs[0], weights[0], weights[1], relu_);
    if (context.update_state)
      context.ops.get<normalisation_ops>().update_running_statistics(
          args_, x[0] * x[2] * x[3], normalised,
          {context.state[running_mean], context.state[running_var], context.state[num_batches_tracked]});
    result.outputs.push_back(std::move(normalised.y));
    result.saved = {std::move(inputs[0]), std::move(normalised.mean), std::move(normalised.variance),
                    std::move(normalised.workspace)};
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    const batch_norm_result normalised{.y = {}, .mean = saved[1], .variance = saved[2], .workspace = saved[3]};
    layer_gradients gradients = context.ops.get<normalisation_ops>().batch_norm2d_backward(
        args_, saved[0], weights[0], normalised, relu_, std::move(output_gradients[0]), wants_gradient(context, 0));
    backward_result result;
    result.input_gradients.push_back(std::move(gradients.input));
    if (!context.need_weight_gradient) gradients.weight = gradients.bias = tensor{};
    result.weight_gradients = parameter_gradients(std::move(gradients), true);
    return result;
  }

private:
  std::int64_t channels_;
  batch_norm_args args_;
  bool relu_; // computed within
};

} // namespace

layer_ptr batch_norm2d(std::int64_t channels, batch_norm_args args) {
  return std::make_shared<batch_norm2d_layer>(channels, args, false);
}

} // namespace penstock::layers
