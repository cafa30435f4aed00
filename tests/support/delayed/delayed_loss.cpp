// Losses.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class losses final : public loss_ops {
public:
  explicit losses(delayed_backend& device) : device_(device) {}

  loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) override {
    loss_result result;
    result.sums = device_.allocate(dtype::f64, {loss_sums::count}, memory_use::scratch);
    result.probabilities = device_.allocate_activation(logits.dims());
    device_.ask({logits, labels}, {result.sums, result.probabilities}, [label_smoothing](backend& loops, auto& in) {
      const auto made = loops.get<loss_ops>().softmax_cross_entropy(in[0], in[1], label_smoothing);
      return std::vector{made.sums, made.probabilities};
    });
    return result;
  }

  tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels, float label_smoothing,
                                        float scale) override {
    tensor dx = device_.allocate_activation(probabilities.dims());
    device_.ask({probabilities, labels}, {dx}, [label_smoothing, scale](backend& loops, auto& in) {
      return std::vector{loops.get<loss_ops>().softmax_cross_entropy_backward(in[0], in[1], label_smoothing, scale)};
    });
    return dx;
  }

  masked_loss_result masked_cross_entropy(const masked_loss_args& args, const tensor& logits,
                                          const tensor& labels) override {
    masked_loss_result result;
    result.sums = device_.allocate(dtype::f64, {masked_loss_sums::count}, memory_use::scratch);
    result.log_sums = device_.allocate(dtype::f32, labels.dims(), memory_use::activations);
    device_.ask({logits, labels}, {result.sums, result.log_sums}, [args](backend& loops, auto& in) {
      const auto made = loops.get<loss_ops>().masked_cross_entropy(args, in[0], in[1]);
      return std::vector{made.sums, made.log_sums};
    });
    return result;
  }

  tensor masked_cross_entropy_backward(const masked_loss_args& args, tensor logits, const tensor& labels,
                                       const tensor& log_sums, float scale) override {
    tensor dx = device_.in_place_of(logits);
    device_.ask({logits, labels, log_sums}, {dx}, [args, scale](backend& loops, auto& in) {
      return std::vector{loops.get<loss_ops>().masked_cross_entropy_backward(args, in[0], in[1], in[2], scale)};
    });
    return dx;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<loss_ops> delayed_loss(delayed_backend& device) {
  return std::make_shared<losses>(device);
}

} // namespace penstock::testing
