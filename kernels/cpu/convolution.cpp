// 2-D convolution: fixed activation layouts, weights as the forward pass likes them best.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_convolution.hpp"
#include "kernels/cpu/relu.hpp"
#include "kernels/cpu/try_layouts.hpp"

namespace penstock {

namespace {

using dnnl::memory;
constexpr auto f32 = memory::data_type::f32;

// Generated code takes the maximum with zero. The general implementations multiply what is negative by zero, which
// leaves a minus sign on some zeros that a ReLU of its own does not.
bool fuses_relu_exactly(const std::string& implementation) {
  return implementation.starts_with("jit") || implementation.starts_with("brg");
}

memory::desc any_layout(const memory::dims& dims) {
  return {dims, f32, memory::format_tag::any};
}

// What describes the arithmetic of a convolution, in oneDNN's words.
struct conv_problem {
  memory::dims x, weight, y, bias, stride, dilation, padding;

  conv_problem(const conv2d_args& args, const shape& x_dims, const shape& w)
      : x(x_dims), weight(w), bias{w.at(0)},
        stride(args.stride.begin(), args.stride.end()), dilation{args.dilation[0] - 1, args.dilation[1] - 1},
        padding(args.padding.begin(), args.padding.end()) {
    if (args.groups > 1) {
      weight[0] /= args.groups;
      weight.insert(weight.begin(), args.groups);
    }
    y = {x.at(0), w.at(0), extent(args, w, 0), extent(args, w, 1)};
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                                    const memory::desc& source, const memory::desc& weights,
                                                    bool has_bias, const memory::desc& target) const {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    if (!has_bias)
      return {{kind, algorithm, source, weights, target, stride, dilation, padding, padding}, attributes, engine};
    const memory::desc bias_description(bias, f32, memory::format_tag::a);
    return {{kind, algorithm, source, weights, bias_description, target, stride, dilation, padding, padding},
            attributes,
            engine};
  }

  std::string name() const { return "conv2d of x " + to_string(shape(x)) + ", weight " + to_string(shape(weight)); }

private:
  std::int64_t extent(const conv2d_args& args, const shape& w, std::size_t axis) const {
    const std::int64_t reach = args.dilation[axis] * (w.at(2 + axis) - 1) + 1;
    return (x.at(2 + axis) + 2 * args.padding[axis] - reach) / args.stride[axis] + 1;
  }
};

} // namespace

format_ptr onednn_convolution::conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) {
  shape nominal = x;
  nominal.at(0) = 8; // parameters have one format, whatever the batch
  const auto key = shape_key::of(nominal, weight, args.stride, args.padding, args.dilation, args.groups);
  const auto make = [&] {
    const conv_problem problem(args, nominal, weight);
    const auto source = context_.activation_description(problem.x);
    const auto target = context_.activation_description(problem.y);
    const auto pd = first_optimized(problem.name(), {freedom::weights, freedom::all}, [&](freedom free) {
      const bool all = free == freedom::all;
      return problem.forward(context_.engine(), onednn_context::user_scratchpad(), all ? any_layout(problem.x) : source,
                             any_layout(problem.weight), true, all ? any_layout(problem.y) : target);
    });
    return std::make_shared<weight_format_entry>(weight_format_entry{format_of(pd.weights_desc())});
  };
  return weight_formats_.find_or_make(key, make)->format;
}

struct onednn_convolution::forward_entry {
  bound_primitive run;
  format_ptr x, weight, y; // as the primitive wants them
  shape y_dims;
  bool relu_apart = false;
};

std::shared_ptr<onednn_convolution::forward_entry> onednn_convolution::make_forward(const conv2d_args& args,
                                                                                    const tensor& x,
                                                                                    const tensor& weight, bool has_bias,
                                                                                    bool relu) {
  const conv_problem problem(args, x.dims(), weight.dims());
  const auto source = context_.activation_description(problem.x);
  const auto target = context_.activation_description(problem.y);
  const auto stored = description_of(weight.format(), dtype::f32, problem.weight);
  const auto descriptor = [&](bool fused) {
    const auto choices = {freedom::none, freedom::activations, freedom::weights, freedom::all};
    return first_optimized(problem.name(), choices, [&](freedom free) {
      const bool activations = free == freedom::activations || free == freedom::all;
      const bool weights = free == freedom::weights || free == freedom::all;
      return problem.forward(
          context_.engine(), onednn_context::with_relu(fused), activations ? any_layout(problem.x) : source,
          weights ? any_layout(problem.weight) : stored, has_bias, activations ? any_layout(problem.y) : target);
    });
  };
  auto pd = descriptor(relu);
  const bool relu_apart = relu && !fuses_relu_exactly(pd.impl_info_str());
  if (relu_apart) pd = descriptor(false);
  auto entry = std::make_shared<forward_entry>();
  if (has_bias)
    entry->run = bound_primitive(pd, dnnl::convolution_forward(pd),
                                 {{DNNL_ARG_SRC, pd.src_desc()},
                                  {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                  {DNNL_ARG_BIAS, pd.bias_desc()},
                                  {DNNL_ARG_DST, pd.dst_desc()}});
  else
    entry->run = bound_primitive(
        pd, dnnl::convolution_forward(pd),
        {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
  entry->x = format_of(pd.src_desc());
  entry->weight = format_of(pd.weights_desc());
  entry->y = format_of(pd.dst_desc());
  entry->y_dims = problem.y;
  entry->relu_apart = relu_apart;
  return entry;
}

tensor onednn_convolution::conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                          const tensor& bias, bool relu) {
  const bool has_bias = static_cast<bool>(bias);
  const auto key = shape_key::of(x.dims(), weight.dims(), args.stride, args.padding, args.dilation, args.groups,
                                 has_bias, relu, hash_of(weight.format()));
  const auto entry = forwards_.find_or_make(key, [&] { return make_forward(args, x, weight, has_bias, relu); });
  const tensor source = context_.in_format(x, entry->x);
  const tensor weights = context_.in_format(weight, entry->weight);
  tensor y = context_.allocate(dtype::f32, entry->y_dims, memory_use::activations, entry->y);
  if (has_bias)
    context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()},
                                  {DNNL_ARG_WEIGHTS, weights.raw()},
                                  {DNNL_ARG_BIAS, bias.raw()},
                                  {DNNL_ARG_DST, y.raw()}});
  else
    context_.execute(entry->run,
                     {{DNNL_ARG_SRC, source.raw()}, {DNNL_ARG_WEIGHTS, weights.raw()}, {DNNL_ARG_DST, y.raw()}});
  if (entry->relu_apart) y = relu_forward(context_, std::move(y));
  return context_.reorder(y, context_.activation_format(entry->y_dims), memory_use::activations);
}

struct onednn_convolution::backward_entry {
  bound_primitive data, weights;
  format_ptr data_weight, data_dx, data_dy;     // as the backward-data primitive wants them
  format_ptr weights_x, weights_dw, weights_dy; // and the backward-weights one
  bool has_data = false, has_weights = false;   // made when first wanted
};

layer_gradients onednn_convolution::conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                                    bool has_bias, const tensor& y, bool relu, tensor dy, bool want_dx,
                                                    bool want_dw) {
  if (relu) dy = relu_backward(context_, y, std::move(dy));
  const auto key = shape_key::of(x.dims(), weight.dims(), args.stride, args.padding, args.dilation, args.groups,
                                 has_bias, hash_of(weight.format()));
  const auto entry = backwards_.find_or_make(key, [] { return std::make_shared<backward_entry>(); });
  layer_gradients gradients;
  if (want_dw) {
    if (!entry->has_weights) make_backward_weights(*entry, args, x, weight, has_bias);
    const tensor source = context_.in_format(x, entry->weights_x);
    const tensor gradient = context_.in_format(dy, entry->weights_dy);
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
    if (!entry->has_data) make_backward_data(*entry, args, x, weight);
    const tensor weights = context_.in_format(weight, entry->data_weight);
    const tensor gradient = context_.in_format(dy, entry->data_dy);
    tensor dx = context_.allocate(dtype::f32, x.dims(), memory_use::gradients, entry->data_dx);
    context_.execute(
        entry->data,
        {{DNNL_ARG_DIFF_DST, gradient.raw()}, {DNNL_ARG_WEIGHTS, weights.raw()}, {DNNL_ARG_DIFF_SRC, dx.raw()}});
    gradients.input = context_.reorder(dx, context_.activation_format(x.dims()), memory_use::gradients);
  }
  return gradients;
}

void onednn_convolution::make_backward_weights(backward_entry& entry, const conv2d_args& args, const tensor& x,
                                               const tensor& weight, bool has_bias) {
  const conv_problem problem(args, x.dims(), weight.dims());
  const auto source = context_.activation_description(problem.x);
  const auto target = context_.activation_description(problem.y);
  const auto stored = description_of(weight.format(), dtype::f32, problem.weight);
  const memory::desc bias(problem.bias, f32, memory::format_tag::a);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using backward = dnnl::convolution_backward_weights;
  const auto pd = first_optimized(
      problem.name() + ", gradient of weight", {freedom::none, freedom::weights, freedom::all}, [&](freedom free) {
        const bool all = free == freedom::all;
        const auto s = all ? any_layout(problem.x) : source;
        const auto t = all ? any_layout(problem.y) : target;
        const auto w = free == freedom::none ? stored : any_layout(problem.weight);
        const auto hint = problem.forward(context_.engine(), onednn_context::user_scratchpad(), s,
                                          any_layout(problem.weight), has_bias, t);
        const auto description = has_bias ? backward::desc(algorithm, s, w, bias, t, problem.stride, problem.dilation,
                                                           problem.padding, problem.padding)
                                          : backward::desc(algorithm, s, w, t, problem.stride, problem.dilation,
                                                           problem.padding, problem.padding);
        return backward::primitive_desc(description, onednn_context::user_scratchpad(), context_.engine(), hint);
      });
  if (has_bias)
    entry.weights = bound_primitive(pd, backward(pd),
                                    {{DNNL_ARG_SRC, pd.src_desc()},
                                     {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                     {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                     {DNNL_ARG_DIFF_BIAS, pd.diff_bias_desc()}});
  else
    entry.weights = bound_primitive(pd, backward(pd),
                                    {{DNNL_ARG_SRC, pd.src_desc()},
                                     {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                     {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}});
  entry.weights_x = format_of(pd.src_desc());
  entry.weights_dy = format_of(pd.diff_dst_desc());
  entry.weights_dw = format_of(pd.diff_weights_desc());
  entry.has_weights = true;
}

void onednn_convolution::make_backward_data(backward_entry& entry, const conv2d_args& args, const tensor& x,
                                            const tensor& weight) {
  const conv_problem problem(args, x.dims(), weight.dims());
  const auto source = context_.activation_description(problem.x);
  const auto target = context_.activation_description(problem.y);
  const auto stored = description_of(weight.format(), dtype::f32, problem.weight);
  using backward = dnnl::convolution_backward_data;
  const auto pd = first_optimized(
      problem.name() + ", gradient of x", {freedom::none, freedom::weights, freedom::all}, [&](freedom free) {
        const bool all = free == freedom::all;
        const auto s = all ? any_layout(problem.x) : source;
        const auto t = all ? any_layout(problem.y) : target;
        const auto w = free == freedom::none ? stored : any_layout(problem.weight);
        const auto hint = problem.forward(context_.engine(), onednn_context::user_scratchpad(), s,
                                          any_layout(problem.weight), false, t);
        return backward::primitive_desc({dnnl::algorithm::convolution_direct, s, w, t, problem.stride, problem.dilation,
                                         problem.padding, problem.padding},
                                        onednn_context::user_scratchpad(), context_.engine(), hint);
      });
  entry.data = bound_primitive(pd, backward(pd),
                               {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
  entry.data_dy = format_of(pd.diff_dst_desc());
  entry.data_weight = format_of(pd.weights_desc());
  entry.data_dx = format_of(pd.diff_src_desc());
  entry.has_data = true;
}

} // namespace penstock
