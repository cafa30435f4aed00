// Pooling of images: maxima by oneDNN, averages by the loops of average_pooling.cpp.
#include "kernels/check.hpp"
#include "kernels/cpu/average_bins.hpp"
#include "kernels/cpu/onednn_convolution.hpp"
#include "kernels/window.hpp"

namespace penstock {

struct onednn_convolution::max_pool_entry {
  bound_primitive run;
  shape y_dims;
  std::size_t workspace_bytes = 0;
};

namespace {

using dnnl::memory;

struct pool_problem {
  memory::dims x, y, stride, kernel, dilation{0, 0}, before, after;

  pool_problem(const pool2d_args& args, const shape& x_dims)
      : x(x_dims), y{x_dims.at(0), x_dims.at(1)}, stride(args.stride.begin(), args.stride.end()),
        kernel(args.kernel.begin(), args.kernel.end()), before(args.padding.begin(), args.padding.end()) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      y.push_back(pool_window_count(x[2 + axis], kernel[axis], stride[axis], args.padding[axis], args.ceil_mode));
      // A last partial window reaches as far into the padding behind as it must.
      after.push_back((y[2 + axis] - 1) * stride[axis] + kernel[axis] - x[2 + axis] - args.padding[axis]);
    }
  }

  dnnl::pooling_v2_forward::primitive_desc forward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                                   const memory::desc& source, const memory::desc& target,
                                                   bool training) const {
    const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    return {{kind, dnnl::algorithm::pooling_max, source, target, stride, kernel, dilation, before, after},
            attributes,
            engine};
  }
};

} // namespace

std::shared_ptr<onednn_convolution::max_pool_entry> onednn_convolution::make_max_pool(const pool2d_args& args,
                                                                                      const shape& x, bool training) {
  const pool_problem problem(args, x);
  const auto pd =
      problem.forward(context_.engine(), onednn_context::user_scratchpad(), context_.activation_description(problem.x),
                      context_.activation_description(problem.y), training);
  auto entry = std::make_shared<max_pool_entry>();
  entry->y_dims = problem.y;
  entry->workspace_bytes = training ? pd.workspace_desc().get_size() : 0;
  if (training)
    entry->run = bound_primitive(
        pd, dnnl::pooling_v2_forward(pd),
        {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DST, pd.dst_desc()}, {DNNL_ARG_WORKSPACE, pd.workspace_desc()}});
  else
    entry->run = bound_primitive(pd, dnnl::pooling_v2_forward(pd),
                                 {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
  return entry;
}

pool_result onednn_convolution::pool2d_forward(const pool2d_args& args, const tensor& x, bool training) {
  const tensor source = context_.in_activation_format(x);
  if (args.kind == pool_kind::average) return {average_pool_forward(window_bins(args, x.dims()), source), {}};
  const auto key = shape_key::of(x.dims(), args.kernel, args.stride, args.padding, args.ceil_mode, training);
  const auto entry = max_pool_forwards_.find_or_make(key, [&] { return make_max_pool(args, x.dims(), training); });
  pool_result result;
  result.y = context_.allocate_activation(entry->y_dims);
  if (!training) {
    context_.execute(entry->run, {{DNNL_ARG_SRC, source.raw()}, {DNNL_ARG_DST, result.y.raw()}});
    return result;
  }
  result.workspace =
      context_.allocate(dtype::u8, {static_cast<std::int64_t>(entry->workspace_bytes)}, memory_use::activations);
  context_.execute(
      entry->run,
      {{DNNL_ARG_SRC, source.raw()}, {DNNL_ARG_DST, result.y.raw()}, {DNNL_ARG_WORKSPACE, result.workspace.raw()}});
  return result;
}

tensor onednn_convolution::pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace,
                                           const tensor& dy) {
  const tensor gradient = context_.in_activation_format(dy);
  if (args.kind == pool_kind::average) return average_pool_backward(window_bins(args, x), x, gradient);
  const auto key = shape_key::of(x, args.kernel, args.stride, args.padding, args.ceil_mode);
  const auto entry = max_pool_backwards_.find_or_make(key, [&] {
    const pool_problem problem(args, x);
    const auto source = context_.activation_description(problem.x);
    const auto target = context_.activation_description(problem.y);
    const auto hint = problem.forward(context_.engine(), onednn_context::user_scratchpad(), source, target, true);
    const dnnl::pooling_v2_backward::primitive_desc pd({dnnl::algorithm::pooling_max, source, target, problem.stride,
                                                        problem.kernel, problem.dilation, problem.before,
                                                        problem.after},
                                                       onednn_context::user_scratchpad(), context_.engine(), hint);
    auto made = std::make_shared<max_pool_entry>();
    made->run = bound_primitive(pd, dnnl::pooling_v2_backward(pd),
                                {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                 {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                 {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
    return made;
  });
  tensor dx = context_.allocate(dtype::f32, x, memory_use::gradients, context_.activation_format(x));
  context_.execute(
      entry->run,
      {{DNNL_ARG_DIFF_DST, gradient.raw()}, {DNNL_ARG_WORKSPACE, workspace.raw()}, {DNNL_ARG_DIFF_SRC, dx.raw()}});
  return dx;
}

tensor onednn_convolution::adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) {
  return average_pool_forward(adaptive_bins(x.dims(), output), context_.in_activation_format(x));
}

tensor onednn_convolution::adaptive_average_pool2d_backward(const shape& x, const tensor& dy) {
  return average_pool_backward(adaptive_bins(x, {dy.dim(2), dy.dim(3)}), x, context_.in_activation_format(dy));
}

} // namespace penstock
