// Normalisations.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class normalisation final : public normalisation_ops {
public:
  explicit normalisation(delayed_backend& device) : device_(device) {}

  batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                         const tensor& shift, bool relu) override {
    batch_norm_result result;
    result.mean = device_.allocate_activation({x.dim(1)});
    result.variance = device_.allocate_activation({x.dim(1)});
    result.y = device_.allocate_activation(x.dims());
    if (relu) result.workspace = device_.allocate(dtype::u8, x.dims(), memory_use::activations);
    device_.ask({x, scale, shift}, {result.y, result.mean, result.variance, result.workspace},
                [args, relu](backend& loops, auto& in) {
                  const auto made =
                      loops.get<normalisation_ops>().batch_norm2d_forward(args, in[0], in[1], in[2], relu);
                  return std::vector{made.y, made.mean, made.variance, made.workspace};
                });
    return result;
  }

  void update_running_statistics(const batch_norm_args& args, std::int64_t count, const batch_norm_result& batch,
                                 const running_statistics& running) override {
    device_.ask({batch.mean, batch.variance, running.mean, running.variance, running.batches}, {},
                [args, count](backend& loops, auto& in) {
                  loops.get<normalisation_ops>().update_running_statistics(args, count, {{}, in[0], in[1], {}},
                                                                           {in[2], in[3], in[4]});
                  return std::vector<tensor>{};
                });
  }

  tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale, const tensor& shift,
                                const tensor& mean, const tensor& variance, bool relu) override {
    tensor y = device_.allocate_activation(x.dims());
    device_.ask({x, scale, shift, mean, variance}, {y}, [args, relu](backend& loops, auto& in) {
      return std::vector{
          loops.get<normalisation_ops>().batch_norm2d_inference(args, in[0], in[1], in[2], in[3], in[4], relu)};
    });
    return y;
  }

  layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) override {
    layer_gradients result;
    result.weight = device_.allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
    result.bias = device_.allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
    if (want_dx) result.input = device_.allocate_activation(x.dims());
    device_.ask({x, scale, saved.y, saved.mean, saved.variance, saved.workspace, dy},
                {result.input, result.weight, result.bias}, [args, relu, want_dx](backend& loops, auto& in) {
                  const auto d = loops.get<normalisation_ops>().batch_norm2d_backward(
                      args, in[0], in[1], {in[2], in[3], in[4], in[5]}, relu, in[6], want_dx);
                  return std::vector{d.input, d.weight, d.bias};
                });
    return result;
  }

  layer_norm_result layer_norm_forward(const layer_norm_args& args, const tensor& x, const tensor& weight,
                                       const tensor& bias) override {
    const std::int64_t rows = x.elements() / weight.elements();
    layer_norm_result result{device_.allocate_activation(x.dims()), device_.allocate_activation({rows}),
                             device_.allocate_activation({rows})};
    device_.ask({x, weight, bias}, {result.y, result.mean, result.inverse_deviation}, [args](backend& loops, auto& in) {
      const auto made = loops.get<normalisation_ops>().layer_norm_forward(args, in[0], in[1], in[2]);
      return std::vector{made.y, made.mean, made.inverse_deviation};
    });
    return result;
  }

  layer_gradients layer_norm_backward(const tensor& x, const tensor& weight, bool has_bias,
                                      const layer_norm_result& saved, tensor dy, bool want_dx, bool want_dw) override {
    layer_gradients result;
    if (want_dx) result.input = device_.allocate_activation(x.dims());
    if (want_dw) result.weight = device_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    if (want_dw && has_bias) result.bias = device_.allocate(dtype::f32, weight.dims(), memory_use::gradients);
    device_.ask({x, weight, saved.mean, saved.inverse_deviation, dy}, {result.input, result.weight, result.bias},
                [has_bias, want_dx, want_dw](backend& loops, auto& in) {
                  const auto d = loops.get<normalisation_ops>().layer_norm_backward(
                      in[0], in[1], has_bias, {{}, in[2], in[3]}, in[4], want_dx, want_dw);
                  return std::vector{d.input, d.weight, d.bias};
                });
    return result;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<normalisation_ops> delayed_normalisation(delayed_backend& device) {
  return std::make_shared<normalisation>(device);
}

} // namespace penstock::testing
