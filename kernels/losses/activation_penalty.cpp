// The penalties of activations through the backend.
#include "kernels/losses/activation_penalty.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::losses {

namespace {

class penalty_loss final : public loss_function {
public:
  explicit penalty_loss(penalty kind) : kind_(kind) {}

  std::string_view kind() const override {
    return kind_ == penalty::step ? "temporal_activation_penalty" : "activation_penalty";
  }
  std::vector<std::string> sums() const override { return {"loss"}; }

  void expect(std::span<const tensor_spec> inputs) const override {
    const std::string name(kind());
    if (inputs.size() != 1) throw usage_error(name + " reads one value");
    if (inputs[0].type != dtype::f32 || inputs[0].dims.size() != 3)
      throw usage_error(name + ": the activations are " + std::string(name_of(inputs[0].type)) + " " +
                        to_string(inputs[0].dims) + "; wanted F32 [N, T, F]");
  }

  forward_value forward(backend& ops, std::span<const tensor> inputs, phase mode) const override {
    auto sums = ops.get<recurrent_ops>().penalty_sum(kind_, inputs[0], 1 / values_of_a_sample(inputs[0]));
    if (mode == phase::evaluation) return {std::move(sums), {}};
    return {std::move(sums), {inputs[0]}};
  }

  std::vector<tensor> backward(backend& ops, std::span<tensor> saved, float scale) const override {
    const auto factor = static_cast<float>(static_cast<double>(scale) / values_of_a_sample(saved[0]));
    return {ops.get<recurrent_ops>().penalty_gradient(kind_, saved[0], factor)};
  }

private:
  double values_of_a_sample(const tensor& h) const {
    const auto steps = kind_ == penalty::step ? std::max<std::int64_t>(1, h.dim(1) - 1) : h.dim(1);
    return static_cast<double>(steps * h.dim(2));
  }

  penalty kind_;
};

} // namespace

loss_ptr activation_penalty(penalty kind) {
  return std::make_shared<penalty_loss>(kind);
}

} // namespace penstock::losses
