// Embeddings: rows of learnt tables, by number or by place.
#include "kernels/layers/embedding.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/arrangement_ops.hpp"
#include "kernels/ops/embedding_ops.hpp"

namespace penstock::layers {

namespace {

class embedding_layer final : public vetted_layer {
public:
  embedding_layer(std::int64_t rows, std::int64_t width, embedding_options options)
      : rows_(rows), width_(width), options_(options) {
    expect_at_least(1, rows, "embedding: rows");
    expect_at_least(1, width, "embedding: width");
    if (options_.padding_row < -1 || options_.padding_row >= rows)
      throw usage_error("embedding: padding row is " + std::to_string(options_.padding_row) + ", 0 to " +
                        std::to_string(rows - 1) + " is wanted, or -1 for none");
    if (!(options_.row_dropout >= 0 && options_.row_dropout < 1))
      throw usage_error("embedding: row dropout is " + number_text(options_.row_dropout) +
                        ", at least 0 and less than 1 is wanted");
  }

  std::string_view kind() const override { return "embedding"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{dtype::i64, "[N, ...]"}});
    shape y = inputs[0].dims;
    y.push_back(width_);
    return {{dtype::f32, y}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    const initializer init =
        options_.padding_row < 0 ? options_.init : with_zero_row(options_.init, options_.padding_row, width_);
    return {{"weight", {rows_, width_}, init, false}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    refuse_outside(context, inputs[0], rows_, "token id");
    forward_result result;
    result.outputs.push_back(context.ops.get<embedding_ops>().embed(weights[0], inputs[0], drop(context)));
    if (context.mode == phase::training) result.saved.push_back(std::move(inputs[0]));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    return {{tensor{}}, {weight_gradient(context, saved[0], output_gradients[0])}};
  }

  backward_input_result backward_input(run_context&, std::span<tensor> output_gradients, std::span<const tensor>,
                                       std::span<const tensor> saved) const override {
    return {{tensor{}}, {saved[0], std::move(output_gradients[0])}};
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor>,
                                      std::span<tensor> kept) const override {
    return {weight_gradient(context, kept[0], kept[1])};
  }

private:
  row_dropout drop(const run_context& context) const {
    return {context.random, context.mode == phase::training ? options_.row_dropout : 0.0F};
  }

  tensor weight_gradient(run_context& context, const tensor& ids, const tensor& dy) const {
    if (!context.need_weight_gradient) return {};
    return context.ops.get<embedding_ops>().embed_backward({rows_, width_}, ids, drop(context), dy,
                                                           options_.padding_row);
  }

  std::int64_t rows_, width_;
  embedding_options options_;
};

void expect_sequence(std::span<const tensor_spec> inputs, std::int64_t width) {
  expect_inputs(inputs, {sequences});
  if (inputs[0].dims[2] != width)
    throw usage_error("input has " + std::to_string(inputs[0].dims[2]) + " features, " + std::to_string(width) +
                      " are wanted");
}

class positions_layer final : public vetted_layer {
public:
  positions_layer(std::int64_t most, std::int64_t width, positions_options options)
      : width_(width), options_(std::move(options)), dims_{most, width} {
    expect_at_least(1, most, "positions: most");
    expect_at_least(1, width, "positions: width");
    if (options_.leading_axis) dims_.insert(dims_.begin(), 1);
  }

  std::string_view kind() const override { return "positions"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_sequence(inputs, width_);
    const std::int64_t most = element_count(dims_) / width_;
    if (inputs[0].dims[1] > most)
      throw usage_error("input has " + std::to_string(inputs[0].dims[1]) + " positions, at most " +
                        std::to_string(most) + " are wanted");
    return {inputs[0]};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{options_.name, dims_, options_.init, false}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    infer(std::vector<tensor_spec>{{dtype::f32, inputs[0].dims()}}); // lengths vary from call to call
    forward_result result;
    result.outputs.push_back(context.ops.get<embedding_ops>().add_rows(std::move(inputs[0]), weights[0]));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    backward_result result;
    result.weight_gradients.emplace_back();
    if (context.need_weight_gradient)
      result.weight_gradients[0] = context.ops.get<embedding_ops>().sum_rows(output_gradients[0], dims_);
    result.input_gradients.push_back(wants_gradient(context, 0) ? std::move(output_gradients[0]) : tensor{});
    return result;
  }

private:
  std::int64_t width_;
  positions_options options_;
  shape dims_;
};

class class_token_layer final : public vetted_layer {
public:
  class_token_layer(std::int64_t width, const initializer& init) : width_(width), init_(init) {
    expect_at_least(1, width, "class_token: width");
  }

  std::string_view kind() const override { return "class_token"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_sequence(inputs, width_);
    shape y = inputs[0].dims;
    ++y[1];
    return {{dtype::f32, y}};
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{"", {1, 1, width_}, init_, false}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    forward_result result;
    result.outputs.push_back(context.ops.get<embedding_ops>().prepend_row(inputs[0], weights[0]));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    const tensor& dy = output_gradients[0];
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] = context.ops.get<arrangement_ops>().slice(dy, 1, 1, dy.dim(1));
    result.weight_gradients.emplace_back();
    if (context.need_weight_gradient)
      result.weight_gradients[0] = context.ops.get<embedding_ops>().sum_rows(dy, {1, 1, width_});
    return result;
  }

private:
  std::int64_t width_;
  initializer init_;
};

} // namespace

layer_ptr embedding(std::int64_t rows, std::int64_t width, embedding_options options) {
  return std::make_shared<embedding_layer>(rows, width, options);
}

layer_ptr positions(std::int64_t most, std::int64_t width, positions_options options) {
  return std::make_shared<positions_layer>(most, width, std::move(options));
}

layer_ptr class_token(std::int64_t width, initializer init) {
  return std::make_shared<class_token_layer>(width, init);
}

} // namespace penstock::layers
