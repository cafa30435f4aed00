// Normalisations by the definition, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/running_statistics.hpp"

namespace penstock {

class reference_normalisation final : public normalisation_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_normalisation(backend& memory) : memory_(memory) {}

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
  backend& memory_;
};

} // namespace penstock
