// oneDNN's batch normalisation, and layer normalisation in loops.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/running_statistics.hpp"

namespace penstock {

class onednn_normalisation final : public normalisation_ops {
public:
  explicit onednn_normalisation(onednn_context& context) : context_(context) {}

  batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                         const tensor& shift, bool relu) override;
  void update_running_statistics(const batch_norm_args& args, std::int64_t count, const batch_norm_result& batch,
                                 const running_statistics& running) override {
    update_on_host(args.momentum, count, batch, running);
  }
  tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale, const tensor& shift,
                                const tensor& mean, const tensor& variance, bool relu) override;
  layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) override;
  layer_norm_result layer_norm_forward(const layer_norm_args& args, const tensor& x, const tensor& weight,
                                       const tensor& bias) override;
  layer_gradients layer_norm_backward(const tensor& x, const tensor& weight, bool has_bias,
                                      const layer_norm_result& saved, tensor dy, bool want_dx, bool want_dw) override;

private:
  struct norm_entry;

  onednn_context& context_;
  shape_cache<norm_entry> forwards_;
  shape_cache<norm_entry> inferences_;
  shape_cache<norm_entry> backwards_;
};

} // namespace penstock
