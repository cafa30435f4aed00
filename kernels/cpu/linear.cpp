// Fully connected layers: y = x W^T + b on plain (N, features) tensors. Those of more axes are in linear_rows.cpp.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_linear.hpp"
#include "kernels/cpu/relu.hpp"
#include "kernels/cpu/try_layouts.hpp"

namespace penstock {

namespace {

using dnnl::memory;
constexpr auto f32 = memory::data_type::f32;

dnnl::inner_product_forward::primitive_desc forward_descriptor(const dnnl::engine& engine,
                                                               const dnnl::primitive_attr& attributes,
                                                               const memory::desc& x, const memory::desc& weight,
                                                               bool has_bias, const memory::desc& y) {
  const auto kind = dnnl::prop_kind::forward_training;
  if (!has_bias) return {{kind, x, weight, y}, attributes, engine};
  const memory::desc bias({y.dims()[1]}, f32, memory::format_tag::a);
  return {{kind, x, weight, bias, y}, attributes, engine};
}

memory::desc any_layout(const shape& dims) {
  return {dims, f32, memory::format_tag::any};
}

std::string name_of(const shape& x, const shape& weight) {
  return "linear of x " + to_string(x) + ", weight " + to_string(weight);
}

} // namespace

format_ptr onednn_linear::linear_weight_format(const shape& x, const shape& weight) {
  if (x.size() != 2) return nullptr;
  const shape nominal{8, x.at(1)}; // parameters have one format, whatever the batch
  const auto key = shape_key::of(nominal, weight);
  const auto make = [&] {
    const auto pd =
        forward_descriptor(context_.engine(), onednn_context::user_scratchpad(), plain_description(dtype::f32, nominal),
                           any_layout(weight), true, plain_description(dtype::f32, {nominal[0], weight.at(0)}));
    return std::make_shared<weight_format_entry>(weight_format_entry{format_of(pd.weights_desc())});
  };
  return weight_formats_.find_or_make(key, make)->format;
}

struct onednn_linear::forward_entry {
  bound_primitive run;
  format_ptr weight;
};

std::shared_ptr<onednn_linear::forward_entry> onednn_linear::make_forward(const tensor& x, const tensor& weight,
                                                                          bool has_bias) {
  const shape y_dims{x.dim(0), weight.dim(0)};
  const auto pd =
      first_optimized(name_of(x.dims(), weight.dims()), {freedom::none, freedom::weights}, [&](freedom free) {
        return forward_descriptor(context_.engine(), onednn_context::user_scratchpad(),
                                  plain_description(dtype::f32, x.dims()),
                                  free == freedom::none ? description_of(weight) : any_layout(weight.dims()), has_bias,
                                  plain_description(dtype::f32, y_dims));
      });
  auto made = std::make_shared<forward_entry>();
  if (has_bias)
    made->run = bound_primitive(pd, dnnl::inner_product_forward(pd),
                                {{DNNL_ARG_SRC, pd.src_desc()},
                                 {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                 {DNNL_ARG_BIAS, pd.bias_desc()},
                                 {DNNL_ARG_DST, pd.dst_desc()}});
  else
    made->run = bound_primitive(
        pd, dnnl::inner_product_forward(pd),
        {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
  made->weight = format_of(pd.weights_desc());
  return made;
}

tensor onednn_linear::linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) {
  if (x.rank() != 2) {
    tensor y = rows_forward(x, weight, bias);
    return relu ? relu_forward(context_, std::move(y)) : y;
  }
  const bool has_bias = static_cast<bool>(bias);
  const shape y_dims{x.dim(0), weight.dim(0)};
  const auto key = shape_key::of(x.dims(), weight.dims(), has_bias, hash_of(weight.format()));
  const auto entry = forwards_.find_or_make(key, [&] { return make_forward(x, weight, has_bias); });
  const tensor source = context_.in_format(x, nullptr);
  const tensor weights = context_.in_format(weight, entry->weight);
  tensor y = context_.allocate(dtype::f32, y_dims, memory_use::activations);
  if (has_bias)
    context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()},
                                  {DNNL_ARG_WEIGHTS, weights.raw()},
                                  {DNNL_ARG_BIAS, bias.raw()},
                                  {DNNL_ARG_DST, y.raw()}});
  else
    context_.execute(entry->run,
                     {{DNNL_ARG_SRC, source.raw()}, {DNNL_ARG_WEIGHTS, weights.raw()}, {DNNL_ARG_DST, y.raw()}});
  if (relu) y = relu_forward(context_, std::move(y)); // not oneDNN's: that makes 0 of NaN, and y is small
  return y;
}

struct onednn_linear::backward_entry {
  bound_primitive data, weights;
  format_ptr data_weight, weights_dw;
};

std::shared_ptr<onednn_linear::backward_entry> onednn_linear::make_backward(const tensor& x, const tensor& weight,
                                                                            bool has_bias) {
  const auto source = plain_description(dtype::f32, x.dims());
  const auto target = plain_description(dtype::f32, {x.dim(0), weight.dim(0)});
  const memory::desc bias({weight.dim(0)}, f32, memory::format_tag::a);
  const auto hint = forward_descriptor(context_.engine(), onednn_context::user_scratchpad(), source,
                                       any_layout(weight.dims()), has_bias, target);
  const auto stored_or_any = [&](freedom free) {
    return free == freedom::none ? description_of(weight) : any_layout(weight.dims());
  };
  const auto choices = {freedom::none, freedom::weights};
  auto entry = std::make_shared<backward_entry>();
  using backward_data = dnnl::inner_product_backward_data;
  const auto data = first_optimized(name_of(x.dims(), weight.dims()), choices, [&](freedom free) {
    return backward_data::primitive_desc({source, stored_or_any(free), target}, onednn_context::user_scratchpad(),
                                         context_.engine(), hint);
  });
  entry->data = bound_primitive(data, backward_data(data),
                                {{DNNL_ARG_DIFF_DST, data.diff_dst_desc()},
                                 {DNNL_ARG_WEIGHTS, data.weights_desc()},
                                 {DNNL_ARG_DIFF_SRC, data.diff_src_desc()}});
  entry->data_weight = format_of(data.weights_desc());
  using backward_weights = dnnl::inner_product_backward_weights;
  const auto weights = first_optimized(name_of(x.dims(), weight.dims()), choices, [&](freedom free) {
    const auto description = has_bias ? backward_weights::desc(source, stored_or_any(free), bias, target)
                                      : backward_weights::desc(source, stored_or_any(free), target);
    return backward_weights::primitive_desc(description, onednn_context::user_scratchpad(), context_.engine(), hint);
  });
  if (has_bias)
    entry->weights = bound_primitive(weights, backward_weights(weights),
                                     {{DNNL_ARG_SRC, weights.src_desc()},
                                      {DNNL_ARG_DIFF_DST, weights.diff_dst_desc()},
                                      {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
                                      {DNNL_ARG_DIFF_BIAS, weights.diff_bias_desc()}});
  else
    entry->weights = bound_primitive(weights, backward_weights(weights),
                                     {{DNNL_ARG_SRC, weights.src_desc()},
                                      {DNNL_ARG_DIFF_DST, weights.diff_dst_desc()},
                                      {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()}});
  entry->weights_dw = format_of(weights.diff_weights_desc());
  return entry;
}

layer_gradients onednn_linear::linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y,
                                               bool relu, tensor dy, bool want_dx, bool want_dw) {
  if (relu) dy = relu_backward(context_, y, std::move(dy));
  if (x.rank() != 2) return rows_backward(x, weight, has_bias, dy, want_dx, want_dw);
  const auto key = shape_key::of(x.dims(), weight.dims(), has_bias, hash_of(weight.format()));
  const auto entry = backwards_.find_or_make(key, [&] { return make_backward(x, weight, has_bias); });
  const tensor gradient = context_.in_format(dy, nullptr);
  layer_gradients gradients;
  if (want_dw) {
    const tensor source = context_.in_format(x, nullptr);
    tensor dw = context_.allocate(dtype::f32, weight.dims(), memory_use::gradients, entry->weights_dw);
    if (has_bias) {
      gradients.bias = context_.allocate(dtype::f32, {weight.dim(0)}, memory_use::gradients);
      context_.execute(entry->weights, {{DNNL_ARG_SRC, source.raw()},
                                        {DNNL_ARG_DIFF_DST, gradient.raw()},
                                        {DNNL_ARG_DIFF_WEIGHTS, dw.raw()},
                                        {DNNL_ARG_DIFF_BIAS, gradients.bias.raw()}});
    } else {
      context_.execute(
          entry->weights,
          {{DNNL_ARG_SRC, source.raw()}, {DNNL_ARG_DIFF_DST, gradient.raw()}, {DNNL_ARG_DIFF_WEIGHTS, dw.raw()}});
    }
    gradients.weight = context_.reorder(dw, weight.format(), memory_use::gradients);
  }
  if (want_dx) {
    const tensor weights = context_.in_format(weight, entry->data_weight);
    gradients.input = context_.allocate(dtype::f32, x.dims(), memory_use::gradients);
    context_.execute(entry->data, {{DNNL_ARG_DIFF_DST, gradient.raw()},
                                   {DNNL_ARG_WEIGHTS, weights.raw()},
                                   {DNNL_ARG_DIFF_SRC, gradients.input.raw()}});
  }
  return gradients;
}

} // namespace penstock
