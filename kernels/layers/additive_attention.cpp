// GNMT's attention: projections by the products of linear layers, all else in one operation. The tanh of each pair is
// computed again for the backward.
#include "kernels/layers/additive_attention.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/recurrent_ops.hpp"

#include <cmath>

namespace penstock::layers {

namespace {

shape rows_of(const tensor& x) {
  return {x.dim(0) * x.dim(1), x.dim(2)};
}

class additive_attention_layer final : public vetted_layer {
public:
  additive_attention_layer(std::int64_t hidden, additive_attention_options options)
      : hidden_(hidden), options_(options) {
    expect_at_least(1, hidden, "additive_attention: hidden");
  }

  std::string_view kind() const override { return "additive_attention"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    const input_rule lengths{dtype::i64, "[N]"};
    if (options_.lengths && options_.keys)
      expect_inputs(inputs, {sequences, sequences, lengths, sequences});
    else if (options_.lengths)
      expect_inputs(inputs, {sequences, sequences, lengths});
    else if (options_.keys)
      expect_inputs(inputs, {sequences, sequences, sequences});
    else
      expect_inputs(inputs, {sequences, sequences});
    const shape &query = inputs[0].dims, &keys = inputs[1].dims;
    if (query[2] != hidden_ || keys[2] != hidden_)
      throw usage_error("inputs have " + std::to_string(query[2]) + " and " + std::to_string(keys[2]) + " features, " +
                        std::to_string(hidden_) + " are wanted");
    for (const auto& input : inputs)
      if (input.dims[0] != query[0])
        throw usage_error("inputs have " + std::to_string(query[0]) + " and " + std::to_string(input.dims[0]) +
                          " rows, equally many are wanted");
    if (options_.keys && inputs.back().dims != keys)
      throw usage_error("projected keys are " + to_string(inputs.back().dims) + ", " + to_string(keys) + " is wanted");
    std::vector<tensor_spec> outputs{{dtype::f32, query}};
    if (options_.probabilities) outputs.push_back({dtype::f32, {query[0], query[1], keys[1]}});
    return outputs;
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    const initializer usual = default_uniform(hidden_), weight = options_.weight_init.value_or(usual);
    const auto scalar = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden_)));
    std::vector<parameter_spec> specs{{"linear_q.weight", {hidden_, hidden_}, weight, false},
                                      {"linear_k.weight", {hidden_, hidden_}, weight, false},
                                      {"linear_att", {hidden_}, options_.vector_init.value_or(usual), false},
                                      {"normalize_scalar", {1}, {initializer_kind::constant, scalar}, true},
                                      {"normalize_bias", {hidden_}, {initializer_kind::constant, 0}, true}};
    if (options_.keys) specs.erase(specs.begin() + 1);
    return specs;
  }

  format_ptr parameter_format(backend& ops, std::size_t parameter, std::span<const tensor_spec> inputs) const override {
    if (parameter >= projections()) return nullptr;
    const shape& x = inputs[parameter].dims;
    return ops.get<linear_ops>().linear_weight_format({x[0] * x[1], x[2]}, {hidden_, hidden_});
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    const tensor query = projected(context, inputs[0], weights[0]),
                 key = options_.keys ? inputs.back() : projected(context, inputs[1], weights[1]);
    const tensor lengths = options_.lengths ? inputs[2] : tensor{};
    if (lengths) refuse_outside(context, lengths, inputs[1].dim(1) + 1, "length");
    auto made = context.ops.get<recurrent_ops>().additive_attention(named(query, key, inputs[1], lengths, weights));
    forward_result result;
    result.outputs.push_back(std::move(made.context));
    if (options_.probabilities) result.outputs.push_back(made.probabilities);
    if (context.mode == phase::training) {
      result.saved = {inputs[0], inputs[1], query, key, std::move(made.probabilities)};
      if (options_.lengths) result.saved.push_back(lengths);
    }
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    auto first = backward_input(context, output_gradients, weights, saved);
    backward_result result{std::move(first.input_gradients), {}};
    result.weight_gradients = context.need_weight_gradient ? backward_weight(context, weights, first.kept)
                                                           : std::vector<tensor>(projections() + 3);
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    const tensor lengths = options_.lengths ? saved[5] : tensor{};
    auto gradients = context.ops.get<recurrent_ops>().additive_attention_backward(
        named(saved[2], saved[3], saved[1], lengths, weights), saved[4], output_gradients[0]);
    backward_input_result result;
    result.input_gradients.resize(2U + (options_.lengths ? 1 : 0) + (options_.keys ? 1 : 0));
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          through(context, saved[0], weights[0], gradients.query, true).input.reshaped(saved[0].dims());
    if (options_.keys) {
      result.input_gradients[1] = std::move(gradients.value);
      result.input_gradients.back() = gradients.key;
    } else if (wants_gradient(context, 1)) {
      const tensor projection = through(context, saved[1], weights[1], gradients.key, true).input;
      result.input_gradients[1] = context.ops.get<elementwise_ops>().add(std::move(gradients.value),
                                                                         projection.reshaped(saved[1].dims()), false);
    }
    if (context.need_weight_gradient)
      result.kept = {saved[0],
                     saved[1],
                     std::move(gradients.query),
                     std::move(gradients.key),
                     std::move(gradients.vector),
                     std::move(gradients.scalar),
                     std::move(gradients.bias)};
    return result;
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor> weights,
                                      std::span<tensor> kept) const override {
    std::vector<tensor> gradients{through(context, kept[0], weights[0], kept[2], false).weight};
    if (!options_.keys) gradients.push_back(through(context, kept[1], weights[1], kept[3], false).weight);
    gradients.insert(gradients.end(), {std::move(kept[4]), std::move(kept[5]), std::move(kept[6])});
    return gradients;
  }

  /// The two projections, and for each query, key and feature a sum, a tanh counted as one, a product and a sum twice.
  double forward_flops(std::span<const tensor_spec> inputs) const override {
    const auto rows = static_cast<double>(inputs[0].dims[0]), queries = static_cast<double>(inputs[0].dims[1]),
               keys = static_cast<double>(inputs[1].dims[1]), features = static_cast<double>(hidden_);
    return rows * features * (2 * features * (queries + keys) + 6 * queries * keys);
  }

private:
  /// Parameters that are matrices.
  std::size_t projections() const { return options_.keys ? 1 : 2; }

  tensor projected(run_context& context, const tensor& x, const tensor& weight) const {
    return context.ops.get<linear_ops>().linear_forward(x.reshaped(rows_of(x)), weight, {}, false).reshaped(x.dims());
  }

  // One part of the backward of a projection.
  layer_gradients through(run_context& context, const tensor& x, const tensor& weight, const tensor& dy,
                          bool input) const {
    return context.ops.get<linear_ops>().linear_backward(x.reshaped(rows_of(x)), weight, false, {}, false,
                                                         dy.reshaped(rows_of(dy)), input, !input);
  }

  additive_inputs named(const tensor& query, const tensor& key, const tensor& value, const tensor& lengths,
                        std::span<const tensor> weights) const {
    const auto behind = projections();
    return {.query = query,
            .key = key,
            .value = value,
            .lengths = lengths,
            .vector = weights[behind],
            .scalar = weights[behind + 1],
            .bias = weights[behind + 2]};
  }

  std::int64_t hidden_;
  additive_attention_options options_;
};

} // namespace

layer_ptr additive_attention(std::int64_t hidden, additive_attention_options options) {
  return std::make_shared<additive_attention_layer>(hidden, options);
}

} // namespace penstock::layers
