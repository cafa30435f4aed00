// Batch normalisation over N, H, W with ReLU optionally in the same pass.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_normalisation.hpp"

namespace penstock {

struct onednn_normalisation::norm_entry {
  bound_primitive run;
  std::size_t workspace_bytes = 0;
};

namespace {

dnnl::normalization_flags flags_of(bool relu, bool given_statistics) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  if (relu) flags |= dnnl::normalization_flags::fuse_norm_relu;
  if (given_statistics) flags |= dnnl::normalization_flags::use_global_stats;
  return flags;
}

dnnl::batch_normalization_forward::primitive_desc forward_descriptor(const dnnl::engine& engine,
                                                                     const dnnl::primitive_attr& attributes,
                                                                     const dnnl::memory::desc& x, float epsilon,
                                                                     bool relu, bool given_statistics) {
  // With given statistics and inference there is no workspace to write.
  const auto kind = given_statistics ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  return {{kind, x, epsilon, flags_of(relu, given_statistics)}, attributes, engine};
}

std::int64_t bits_of(float value) {
  return std::bit_cast<std::int32_t>(value);
}

} // namespace

batch_norm_result onednn_normalisation::batch_norm2d_forward(const batch_norm_args& args, const tensor& x,
                                                             const tensor& scale, const tensor& shift, bool relu) {
  const auto key = shape_key::of(x.dims(), relu, bits_of(args.epsilon));
  const tensor source = context_.in_activation_format(x);
  const auto entry = forwards_.find_or_make(key, [&] {
    const auto pd = forward_descriptor(context_.engine(), onednn_context::user_scratchpad(), description_of(source),
                                       args.epsilon, relu, false);
    auto made = std::make_shared<norm_entry>();
    made->workspace_bytes = pd.workspace_desc().get_size();
    made->run = bound_primitive(pd, dnnl::batch_normalization_forward(pd),
                                {{DNNL_ARG_SRC, pd.src_desc()},
                                 {DNNL_ARG_SCALE, pd.weights_desc()},
                                 {DNNL_ARG_SHIFT, pd.weights_desc()},
                                 {DNNL_ARG_MEAN, pd.mean_desc()},
                                 {DNNL_ARG_VARIANCE, pd.variance_desc()},
                                 {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                 {DNNL_ARG_DST, pd.dst_desc()}});
    return made;
  });
  batch_norm_result result;
  result.y = context_.allocate(dtype::f32, x.dims(), memory_use::activations, source.format());
  result.mean = context_.allocate(dtype::f32, {x.dim(1)}, memory_use::activations);
  result.variance = context_.allocate(dtype::f32, {x.dim(1)}, memory_use::activations);
  if (entry->workspace_bytes > 0)
    result.workspace =
        context_.allocate(dtype::u8, {static_cast<std::int64_t>(entry->workspace_bytes)}, memory_use::activations);
  context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()},
                                {DNNL_ARG_SCALE, scale.raw()},
                                {DNNL_ARG_SHIFT, shift.raw()},
                                {DNNL_ARG_MEAN, result.mean.raw()},
                                {DNNL_ARG_VARIANCE, result.variance.raw()},
                                {DNNL_ARG_WORKSPACE, result.workspace ? result.workspace.raw() : nullptr},
                                {DNNL_ARG_DST, result.y.raw()}});
  return result;
}

tensor onednn_normalisation::batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                    const tensor& shift, const tensor& mean, const tensor& variance,
                                                    bool relu) {
  const auto key = shape_key::of(x.dims(), relu, bits_of(args.epsilon));
  const tensor source = context_.in_activation_format(x);
  const auto entry = inferences_.find_or_make(key, [&] {
    const auto pd = forward_descriptor(context_.engine(), onednn_context::user_scratchpad(), description_of(source),
                                       args.epsilon, relu, true);
    auto made = std::make_shared<norm_entry>();
    made->run = bound_primitive(pd, dnnl::batch_normalization_forward(pd),
                                {{DNNL_ARG_SRC, pd.src_desc()},
                                 {DNNL_ARG_SCALE, pd.weights_desc()},
                                 {DNNL_ARG_SHIFT, pd.weights_desc()},
                                 {DNNL_ARG_MEAN, pd.mean_desc()},
                                 {DNNL_ARG_VARIANCE, pd.variance_desc()},
                                 {DNNL_ARG_DST, pd.dst_desc()}});
    return made;
  });
  tensor y = context_.allocate(dtype::f32, x.dims(), memory_use::activations, source.format());
  context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()},
                                {DNNL_ARG_SCALE, scale.raw()},
                                {DNNL_ARG_SHIFT, shift.raw()},
                                {DNNL_ARG_MEAN, mean.raw()},
                                {DNNL_ARG_VARIANCE, variance.raw()},
                                {DNNL_ARG_DST, y.raw()}});
  return y;
}

layer_gradients onednn_normalisation::batch_norm2d_backward(const batch_norm_args& args, const tensor& x,
                                                            const tensor& scale, const batch_norm_result& saved,
                                                            bool relu, tensor dy, bool want_dx) {
  const auto key = shape_key::of(x.dims(), relu, bits_of(args.epsilon));
  const tensor source = context_.in_activation_format(x);
  const tensor gradient = context_.in_format(dy, source.format());
  const auto entry = backwards_.find_or_make(key, [&] {
    const auto description = description_of(source);
    const auto hint = forward_descriptor(context_.engine(), onednn_context::user_scratchpad(), description,
                                         args.epsilon, relu, false);
    const dnnl::batch_normalization_backward::primitive_desc pd(
        {dnnl::prop_kind::backward, description, description, args.epsilon, flags_of(relu, false)},
        onednn_context::user_scratchpad(), context_.engine(), hint);
    auto made = std::make_shared<norm_entry>();
    made->run = bound_primitive(pd, dnnl::batch_normalization_backward(pd),
                                {{DNNL_ARG_SRC, pd.src_desc()},
                                 {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                 {DNNL_ARG_SCALE, pd.weights_desc()},
                                 {DNNL_ARG_SHIFT, pd.weights_desc()}, // asked for, never read
                                 {DNNL_ARG_MEAN, pd.mean_desc()},
                                 {DNNL_ARG_VARIANCE, pd.variance_desc()},
                                 {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                 {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                 {DNNL_ARG_DIFF_SCALE, pd.diff_weights_desc()},
                                 {DNNL_ARG_DIFF_SHIFT, pd.diff_weights_desc()}});
    return made;
  });
  layer_gradients gradients;
  const tensor dx = context_.allocate(dtype::f32, x.dims(), memory_use::gradients, source.format());
  gradients.weight = context_.allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
  gradients.bias = context_.allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
  context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()},
                                {DNNL_ARG_DIFF_DST, gradient.raw()},
                                {DNNL_ARG_SCALE, scale.raw()},
                                {DNNL_ARG_SHIFT, scale.raw()},
                                {DNNL_ARG_MEAN, saved.mean.raw()},
                                {DNNL_ARG_VARIANCE, saved.variance.raw()},
                                {DNNL_ARG_WORKSPACE, saved.workspace ? saved.workspace.raw() : nullptr},
                                {DNNL_ARG_DIFF_SRC, dx.raw()},
                                {DNNL_ARG_DIFF_SCALE, gradients.weight.raw()},
                                {DNNL_ARG_DIFF_SHIFT, gradients.bias.raw()}});
  if (want_dx) gradients.input = dx;
  return gradients;
}

} // namespace penstock
