// The classifier's loss through the backend.
#include "kernels/losses/cross_entropy.hpp"

#include "kernels/check.hpp"
#include "kernels/ops/loss_ops.hpp"

namespace penstock::losses {

namespace {

class cross_entropy_loss final : public loss_function {
public:
  explicit cross_entropy_loss(float label_smoothing) : label_smoothing_(label_smoothing) {}

  std::string_view kind() const override { return "cross_entropy"; }
  std::vector<std::string> sums() const override { return {"loss", "correct", "correct5"}; }
  std::vector<shown_ratio> shown() const override {
    return {{.name = "accuracy", .of = loss_sums::top1}, {.name = "top5", .of = loss_sums::top5, .in_steps = false}};
  }

  void expect(std::span<const tensor_spec> inputs) const override {
    if (inputs.size() != 2) throw usage_error("cross_entropy reads logits and labels");
    const auto& [logits, labels] = std::tie(inputs[0], inputs[1]);
    if (logits.type != dtype::f32 || logits.dims.size() != 2)
      throw usage_error("the output has shape " + to_string(logits.dims) + "; a classifier's output is [N, classes]");
    if (labels.type != dtype::i64 || labels.dims.size() != 1)
      throw usage_error("labels are " + std::string(name_of(labels.type)) + " " + to_string(labels.dims) +
                        "; wanted I64 [N]");
  }

  forward_value forward(backend& ops, std::span<const tensor> inputs, phase) const override {
    auto result = ops.get<loss_ops>().softmax_cross_entropy(inputs[0], inputs[1], label_smoothing_);
    return {std::move(result.sums), {std::move(result.probabilities), inputs[1]}};
  }

  std::vector<tensor> backward(backend& ops, std::span<tensor> saved, float scale) const override {
    auto gradient = ops.get<loss_ops>().softmax_cross_entropy_backward(saved[0], saved[1], label_smoothing_, scale);
    return {std::move(gradient), {}};
  }

  void judge(const tensor& sums, std::span<const shape> inputs) const override {
    const double* s = sums.data<double>();
    if (s[loss_sums::bad_sample] < 0) return;
    throw error("label " + std::to_string(static_cast<std::int64_t>(s[loss_sums::bad_label])) + " of sample " +
                std::to_string(static_cast<std::int64_t>(s[loss_sums::bad_sample])) + " is outside 0.." +
                std::to_string(inputs[0].at(1) - 1));
  }

  loss_ptr smoothed(float smoothing) const override { return cross_entropy(smoothing); }

private:
  float label_smoothing_;
};

} // namespace

loss_ptr cross_entropy(float label_smoothing) {
  return std::make_shared<cross_entropy_loss>(label_smoothing);
}

} // namespace penstock::losses
