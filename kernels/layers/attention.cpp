// Attention of several heads.
#include "kernels/layers/attention.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/attention_ops.hpp"

#include <cmath>

namespace penstock::layers {

namespace {

class attention_layer final : public vetted_layer {
public:
  attention_layer(std::int64_t heads, attention_options options) : heads_(heads), options_(options) {
    expect_at_least(1, heads, "attention: heads");
    if (!(options_.dropout >= 0 && options_.dropout < 1))
      throw usage_error("attention: dropout is " + number_text(options_.dropout) +
                        ", at least 0 and less than 1 is wanted");
  }

  std::string_view kind() const override { return "attention"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    const input_rule lengths{dtype::i64, "[N]"};
    switch (inputs.size()) {
    case 1:
      expect_inputs(inputs, {sequences});
      break;
    case 2:
      expect_inputs(inputs, {sequences, lengths});
      break;
    case 3:
      expect_inputs(inputs, {sequences, sequences, sequences});
      break;
    case 4:
      expect_inputs(inputs, {sequences, sequences, sequences, lengths});
      break;
    default:
      throw usage_error(std::to_string(inputs.size()) + " inputs, 1 to 4 are wanted");
    }
    const bool packed = operands(inputs.size()) == 1;
    tensor_spec y = inputs[0];
    if (packed) {
      if (y.dims[2] % 3 != 0)
        throw usage_error("input has " + std::to_string(y.dims[2]) + " features, queries, keys and values are wanted");
      y.dims[2] /= 3;
    } else if (inputs[1].dims != inputs[2].dims || inputs[1].dims[0] != y.dims[0] || inputs[1].dims[2] != y.dims[2]) {
      throw usage_error("queries, keys and values have shapes " + to_string(y.dims) + ", " + to_string(inputs[1].dims) +
                        " and " + to_string(inputs[2].dims) + ", equal ones are wanted but for the number of queries");
    }
    if (inputs.size() % 2 == 0 && inputs.back().dims[0] != y.dims[0])
      throw usage_error("inputs have " + std::to_string(y.dims[0]) + " samples and " +
                        std::to_string(inputs.back().dims[0]) + " lengths, as many are wanted");
    if (y.dims[2] % heads_ != 0)
      throw usage_error("width " + std::to_string(y.dims[2]) + " is no multiple of " + std::to_string(heads_) +
                        " heads");
    return {y};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    const auto qkv = inputs.first(operands(inputs.size()));
    const tensor lengths = inputs.size() > qkv.size() ? inputs.back() : tensor{};
    if (lengths) refuse_outside(context, lengths, qkv[qkv.size() == 1 ? 0 : 1].dim(1) + 1, "length");
    auto found = context.ops.get<attention_ops>().attention_forward(args_for(context, qkv), qkv, lengths);
    forward_result result;
    result.outputs.push_back(std::move(found.y));
    if (context.mode == phase::training) {
      result.saved.push_back(std::move(found.log_sums));
      for (tensor& x : inputs)
        result.saved.push_back(std::move(x));
    }
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    const auto inputs = saved.subspan(1);
    const auto qkv = inputs.first(operands(inputs.size()));
    const tensor lengths = inputs.size() > qkv.size() ? inputs.back() : tensor{};
    backward_result result;
    result.input_gradients = context.ops.get<attention_ops>().attention_backward(args_for(context, qkv), qkv, lengths,
                                                                                 saved[0], output_gradients[0]);
    for (std::size_t i = 0; i < qkv.size(); ++i)
      if (!wants_gradient(context, i)) result.input_gradients[i] = tensor{};
    if (lengths) result.input_gradients.emplace_back();
    return result;
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    const tensor_spec y = infer(inputs)[0];
    const std::int64_t keys = operands(inputs.size()) == 1 ? y.dims[1] : inputs[1].dims[1];
    return 4.0 * static_cast<double>(element_count(y.dims) * keys);
  }

private:
  // Tensors that hold q, k and v, of so many inputs.
  static std::size_t operands(std::size_t inputs) { return inputs < 3 ? 1 : 3; }

  attention_args args_for(const run_context& context, std::span<const tensor> qkv) const {
    const std::int64_t width = qkv[0].dim(2) / (qkv.size() == 1 ? 3 : 1);
    const double usual = 1 / std::sqrt(static_cast<double>(width / heads_));
    return {.heads = heads_,
            .scale = options_.scale.value_or(static_cast<float>(usual)),
            .dropout = context.mode == phase::training ? options_.dropout : 0.0F,
            .causal = options_.causal,
            .key = context.random};
  }

  std::int64_t heads_;
  attention_options options_;
};

} // namespace

layer_ptr attention(std::int64_t heads, attention_options options) {
  return std::make_shared<attention_layer>(heads, options);
}

} // namespace penstock::layers
