// Layers that only move elements.
#include "kernels/layers/arrange.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"
#include "kernels/ops/arrangement_ops.hpp"
#include "kernels/ops/embedding_ops.hpp"

#include <numeric>

namespace penstock::layers {

namespace {

// One input, whose gradient is made of the output's and the input's shape.
class mover : public vetted_layer {
public:
  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    if (context.mode == phase::training) result.saved.push_back(remember_shape(context.ops, inputs[0].dims()));
    result.outputs.push_back(move(context.ops, std::move(inputs[0])));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0) && output_gradients[0])
      result.input_gradients[0] = move_back(context.ops, std::move(output_gradients[0]), saved[0].dims());
    return result;
  }

protected:
  virtual tensor move(backend& ops, tensor x) const = 0;
  virtual tensor move_back(backend& ops, tensor dy, const shape& x) const = 0;
};

class to_sequence_layer final : public mover {
public:
  std::string_view kind() const override { return "to_sequence"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {images});
    const shape& x = inputs[0].dims;
    return {{dtype::f32, {x[0], x[2] * x[3], x[1]}}};
  }

protected:
  tensor move(backend& ops, tensor x) const override { return ops.get<arrangement_ops>().to_sequence(x); }
  tensor move_back(backend& ops, tensor dy, const shape& x) const override {
    return ops.get<arrangement_ops>().to_images(dy, x);
  }
};

class select_token_layer final : public mover {
public:
  explicit select_token_layer(std::int64_t index) : index_(index) { expect_at_least(0, index, "select_token: index"); }
  std::string_view kind() const override { return "select_token"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {sequences});
    const shape& x = inputs[0].dims;
    if (x[1] <= index_)
      throw usage_error("input has " + std::to_string(x[1]) + " tokens, at least " + std::to_string(index_ + 1) +
                        " are wanted");
    return {{dtype::f32, {x[0], x[2]}}};
  }

protected:
  tensor move(backend& ops, tensor x) const override {
    infer(std::vector<tensor_spec>{{dtype::f32, x.dims()}}); // lengths vary from call to call
    return ops.get<arrangement_ops>().slice(x, 1, index_, index_ + 1).reshaped({x.dim(0), x.dim(2)});
  }
  tensor move_back(backend& ops, tensor dy, const shape& x) const override {
    return ops.get<arrangement_ops>().widen(dy.reshaped({x[0], 1, x[2]}), x, 1, index_);
  }

private:
  std::int64_t index_;
};

// Of layers for any rank but that of images, which lie in blocks.
void expect_axis(const shape& dims, std::size_t axis) {
  if (dims.size() <= axis || dims.size() == 4)
    throw usage_error("input has shape " + to_string(dims) + ", " + std::to_string(axis + 1) +
                      " axes or more, but not 4, are wanted");
}

class slice_layer final : public mover {
public:
  slice_layer(std::size_t axis, std::int64_t begin, std::int64_t end) : axis_(axis), begin_(begin), end_(end) {
    expect_at_least(1, static_cast<std::int64_t>(axis), "slice: axis");
    expect_at_least(0, begin, "slice: begin");
  }
  std::string_view kind() const override { return "slice"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    if (inputs.size() != 1) expect_inputs(inputs, {{}});
    expect_axis(inputs[0].dims, axis_);
    const std::int64_t extent = inputs[0].dims[axis_], end = end_of(extent);
    if (end > extent || begin_ >= end)
      throw usage_error("axis " + std::to_string(axis_) + " of the input has extent " + std::to_string(extent) +
                        ", of which " + std::to_string(begin_) + " to " + std::to_string(end) + " is no part");
    tensor_spec y = inputs[0];
    y.dims[axis_] = end - begin_;
    return {y};
  }

protected:
  tensor move(backend& ops, tensor x) const override {
    infer(std::vector<tensor_spec>{{x.type(), x.dims()}}); // lengths vary from call to call
    return ops.get<arrangement_ops>().slice(x, axis_, begin_, end_of(x.dim(axis_)));
  }
  tensor move_back(backend& ops, tensor dy, const shape& x) const override {
    return ops.get<arrangement_ops>().widen(dy, x, axis_, begin_);
  }

private:
  std::int64_t end_of(std::int64_t extent) const { return end_ > 0 ? end_ : extent + end_; }

  std::size_t axis_;
  std::int64_t begin_, end_;
};

class transpose_layer final : public mover {
public:
  transpose_layer(std::size_t one, std::size_t other) : one_(one), other_(other) {
    expect_at_least(1, static_cast<std::int64_t>(std::min(one, other)), "transpose: axis");
  }
  std::string_view kind() const override { return "transpose"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{}});
    expect_axis(inputs[0].dims, std::max(one_, other_));
    tensor_spec y = inputs[0];
    std::swap(y.dims[one_], y.dims[other_]);
    return {y};
  }

protected:
  tensor move(backend& ops, tensor x) const override { return ops.get<arrangement_ops>().transpose(x, one_, other_); }
  tensor move_back(backend& ops, tensor dy, const shape&) const override { return move(ops, std::move(dy)); }

private:
  std::size_t one_, other_;
};

class gather_rows_layer final : public vetted_layer {
public:
  std::string_view kind() const override { return "gather_rows"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {sequences, {dtype::i64, "[N, P]"}});
    const shape &x = inputs[0].dims, &p = inputs[1].dims;
    if (x[0] != p[0])
      throw usage_error("inputs have " + std::to_string(x[0]) + " and " + std::to_string(p[0]) +
                        " samples, as many are wanted");
    return {{dtype::f32, {x[0], p[1], x[2]}}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    refuse_outside(context, inputs[1], inputs[0].dim(1), "position", "entry");
    forward_result result;
    result.outputs.push_back(context.ops.get<embedding_ops>().gather_rows(inputs[0], inputs[1]));
    if (context.mode == phase::training)
      result.saved = {remember_shape(context.ops, inputs[0].dims()), std::move(inputs[1])};
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    backward_result result;
    result.input_gradients.resize(2);
    if (wants_gradient(context, 0))
      result.input_gradients[0] =
          context.ops.get<embedding_ops>().gather_rows_backward(saved[0].dims(), saved[1], output_gradients[0]);
    return result;
  }
};

// -- features side by side: rows of two axes, along their second -----------------------

std::vector<tensor> split_rows(backend& ops, tensor x, std::span<const std::int64_t> sizes, memory_use use) {
  const shape whole = x.dims();
  auto parts = ops.get<elementwise_ops>().split(as_rows(ops, std::move(x)), sizes);
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = from_rows(ops, std::move(parts[i]), with_last(whole, sizes[i]), use);
  return parts;
}

tensor concat_rows(backend& ops, std::span<tensor> parts, memory_use use) {
  std::int64_t features = 0;
  std::vector<tensor> rows;
  const shape first = parts[0].dims();
  for (tensor& part : parts) {
    features += part.dims().back();
    rows.push_back(as_rows(ops, std::move(part)));
  }
  return from_rows(ops, ops.get<elementwise_ops>().concat(rows), with_last(first, features), use);
}

class concat_features_layer final : public vetted_layer {
public:
  std::string_view kind() const override { return "concat_features"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_all_inputs(inputs, 2, {dtype::f32, "[N, F, ...]"});
    shape y = inputs[0].dims;
    for (const tensor_spec& input : inputs.subspan(1)) {
      if (with_last(input.dims, 0) != with_last(y, 0))
        throw usage_error("inputs have shapes " + to_string(inputs[0].dims) + " and " + to_string(input.dims) +
                          ", equal ones but for the features are wanted");
      y.back() += input.dims.back();
    }
    return {{dtype::f32, y}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    forward_result result;
    if (context.mode == phase::training)
      for (const tensor& input : inputs)
        result.saved.push_back(remember_shape(context.ops, input.dims()));
    result.outputs.push_back(concat_rows(context.ops, inputs, memory_use::activations));
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    std::vector<std::int64_t> sizes;
    for (const tensor& x : saved)
      sizes.push_back(x.dims().back());
    backward_result result;
    result.input_gradients = split_rows(context.ops, std::move(output_gradients[0]), sizes, memory_use::gradients);
    for (std::size_t i = 0; i < result.input_gradients.size(); ++i)
      if (!wants_gradient(context, i)) result.input_gradients[i] = tensor{};
    return result;
  }
};

class split_features_layer final : public vetted_layer {
public:
  explicit split_features_layer(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {
    expect_at_least(2, static_cast<std::int64_t>(sizes_.size()), "split_features: number of sizes");
    for (const std::int64_t size : sizes_)
      expect_at_least(1, size, "split_features: size");
  }

  std::string_view kind() const override { return "split_features"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    expect_inputs(inputs, {{dtype::f32, "[N, F, ...]"}});
    const std::int64_t sum = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
    if (inputs[0].dims.back() != sum)
      throw usage_error("input has " + std::to_string(inputs[0].dims.back()) + " features, " + std::to_string(sum) +
                        " are wanted");
    std::vector<tensor_spec> parts;
    for (const std::int64_t size : sizes_)
      parts.push_back({dtype::f32, with_last(inputs[0].dims, size)});
    return parts;
  }

  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    return {split_rows(context.ops, std::move(inputs[0]), sizes_, memory_use::activations), {}};
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor>,
                           std::span<const tensor>) const override {
    backward_result result;
    result.input_gradients.emplace_back();
    if (wants_gradient(context, 0))
      result.input_gradients[0] = concat_rows(context.ops, output_gradients, memory_use::gradients);
    return result;
  }

private:
  std::vector<std::int64_t> sizes_;
};

} // namespace

layer_ptr to_sequence() {
  return std::make_shared<to_sequence_layer>();
}

layer_ptr select_token(std::int64_t index) {
  return std::make_shared<select_token_layer>(index);
}

layer_ptr gather_rows() {
  return std::make_shared<gather_rows_layer>();
}

layer_ptr slice(std::size_t axis, std::int64_t begin, std::int64_t end) {
  return std::make_shared<slice_layer>(axis, begin, end);
}

layer_ptr transpose(std::size_t one, std::size_t other) {
  return std::make_shared<transpose_layer>(one, other);
}

layer_ptr concat_features() {
  return std::make_shared<concat_features_layer>();
}

layer_ptr split_features(std::vector<std::int64_t> sizes) {
  return std::make_shared<split_features_layer>(std::move(sizes));
}

} // namespace penstock::layers
