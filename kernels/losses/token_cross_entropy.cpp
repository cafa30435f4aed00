// The loss over a vocabulary through the backend.
#include "kernels/losses/token_cross_entropy.hpp"

#include "kernels/check.hpp"
#include "kernels/ops/loss_ops.hpp"

#include <algorithm>

namespace penstock::losses {

namespace {

class token_loss final : public loss_function {
public:
  explicit token_loss(token_options options) : options_(options) {
    if (!(options.label_smoothing >= 0 && options.label_smoothing < 1))
      throw usage_error("label smoothing must be at least 0 and below 1");
  }

  std::string_view kind() const override { return "token_cross_entropy"; }
  std::vector<std::string> sums() const override { return {"loss", "tokens", "correct"}; }
  std::vector<shown_ratio> shown() const override {
    using place = masked_loss_sums::place;
    return {{.name = "accuracy", .of = place::correct, .by = place::counted},
            // Smoothed, the loss is no likelihood.
            {.name = "perplexity",
             .of = place::loss,
             .by = place::counted,
             .exponential = true,
             .in_steps = options_.label_smoothing == 0}};
  }

  void expect(std::span<const tensor_spec> inputs) const override {
    if (inputs.size() != 2) throw usage_error("token_cross_entropy reads logits and labels");
    const auto& logits = inputs[0];
    const auto& labels = inputs[1];
    const bool has_classes = logits.type == dtype::f32 && logits.dims.size() > 1;
    if (!has_classes || labels.type != dtype::i64 || labels.dims != shape(logits.dims.begin(), logits.dims.end() - 1))
      throw usage_error("token_cross_entropy: logits are " + std::string(name_of(logits.type)) + " " +
                        to_string(logits.dims) + " and labels " + std::string(name_of(labels.type)) + " " +
                        to_string(labels.dims) + "; wanted F32 [N, ..., V] and I64 [N, ...]");
  }

  forward_value forward(backend& ops, std::span<const tensor> inputs, phase mode) const override {
    auto result = ops.get<loss_ops>().masked_cross_entropy(args(mode), inputs[0], inputs[1]);
    if (mode == phase::evaluation) return {std::move(result.sums), {}};
    return {std::move(result.sums), {inputs[0], inputs[1], std::move(result.log_sums)}};
  }

  std::vector<tensor> backward(backend& ops, std::span<tensor> saved, float scale) const override {
    auto gradient = ops.get<loss_ops>().masked_cross_entropy_backward(args(phase::training), std::move(saved[0]),
                                                                      saved[1], saved[2], scale);
    return {std::move(gradient), {}};
  }

  // Which of them lie beyond is not known without the logits; what such a loss is divided by are samples.
  std::optional<std::int64_t> counted(std::span<const std::int64_t> labels) const override {
    if (options_.ignores_beyond) return std::nullopt;
    return static_cast<std::int64_t>(labels.size()) - std::count(labels.begin(), labels.end(), options_.ignored);
  }

  void judge(const tensor& sums, std::span<const shape> inputs) const override {
    const double* s = sums.data<double>();
    if (s[masked_loss_sums::bad_place] < 0) return;
    const auto place = static_cast<std::int64_t>(s[masked_loss_sums::bad_place]);
    const auto& labels = inputs[1];
    const auto row = labels.empty() || labels[0] == 0 ? 1 : element_count(labels) / labels[0];
    throw error("label " + std::to_string(static_cast<std::int64_t>(s[masked_loss_sums::bad_label])) + " of sample " +
                std::to_string(place / row) + ", position " + std::to_string(place % row) + " is outside 0.." +
                std::to_string(inputs[0].back() - 1) + " and not the ignored " + std::to_string(options_.ignored));
  }

  loss_ptr smoothed(float smoothing) const override {
    auto options = options_;
    options.label_smoothing = smoothing;
    return token_cross_entropy(options);
  }

private:
  masked_loss_args args(phase mode) const {
    return {.ignored = options_.ignored,
            .ignores_beyond = options_.ignores_beyond,
            .label_smoothing = mode == phase::training ? options_.label_smoothing : 0};
  }

  token_options options_;
};

} // namespace

loss_ptr token_cross_entropy(token_options options) {
  return std::make_shared<token_loss>(options);
}

} // namespace penstock::losses
