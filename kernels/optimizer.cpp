// SGD, averaged SGD, Adam and AdamW over the backend's fused steps.
#include "kernels/optimizer.hpp"

#include "kernels/check.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock {

namespace {

std::string number_text(float value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", static_cast<double>(value));
  return text.data();
}

void expect_not_negative(float value, const std::string& what) {
  if (!(value >= 0 && std::isfinite(value)))
    throw usage_error("optimizer: " + what + " is " + number_text(value) + ", 0 or more is wanted");
}

void expect_fraction(float value, const std::string& what) {
  if (!(value >= 0 && value < 1))
    throw usage_error("optimizer: " + what + " is " + number_text(value) + ", at least 0 and less than 1 is wanted");
}

// State tensors start as zeros in the weight's own format.
void begin_if_new(backend& ops, const tensor& weight, optimizer_state& state, std::size_t count) {
  if (state.tensors.empty())
    for (std::size_t i = 0; i < count; ++i) {
      state.tensors.push_back(ops.allocate(dtype::f32, weight.dims(), memory_use::optimizer_state, weight.format()));
      ops.fill(state.tensors.back(), 0);
    }
  check(state.tensors.size() == count, "optimizer state has another number of tensors than its optimizer");
}

class sgd final : public optimizer {
public:
  explicit sgd(const optimizer_options& options) : options_(options) {
    expect_fraction(options.momentum, "momentum");
    expect_not_negative(options.weight_decay, "weight decay");
    if (options.nesterov && options.momentum == 0) throw usage_error("optimizer: nesterov needs a momentum above 0");
  }

  std::vector<std::string> state_names() const override {
    if (options_.momentum == 0) return {};
    return {"momentum"};
  }

  void step(backend& ops, float learning_rate, float gradient_scale, bool decay, const tensor& weight,
            const tensor& gradient, optimizer_state& state, tensor& next, const tensor& strange,
            std::int64_t index) const override {
    begin_if_new(ops, weight, state, options_.momentum == 0 ? 0 : 1);
    tensor none;
    ops.get<optimizer_ops>().sgd_step({.learning_rate = learning_rate,
                                       .momentum = options_.momentum,
                                       .nesterov = options_.nesterov,
                                       .weight_decay = decay ? options_.weight_decay : 0,
                                       .gradient_scale = gradient_scale},
                                      weight, gradient, options_.momentum == 0 ? none : state.tensors[0], next, strange,
                                      index);
    ++state.step;
  }

private:
  optimizer_options options_;
};

// torch.optim.ASGD with lambd 0 and t0 the minibatch from which averages are wanted, as AWD uses it: SGD without
// momentum, and a mean of the weights that are counted. As there the first weight that is counted is left out of it
// when the second comes.
class asgd final : public optimizer {
public:
  explicit asgd(const optimizer_options& options) : options_(options) {
    expect_not_negative(options.weight_decay, "weight decay");
  }

  std::vector<std::string> state_names() const override { return {"average"}; }

  void step(backend& ops, float learning_rate, float gradient_scale, bool decay, const tensor& weight,
            const tensor& gradient, optimizer_state& state, tensor& next, const tensor& strange,
            std::int64_t index) const override {
    begin_if_new(ops, weight, state, 1);
    tensor none;
    ops.get<optimizer_ops>().sgd_step({.learning_rate = learning_rate,
                                       .weight_decay = decay ? options_.weight_decay : 0,
                                       .gradient_scale = gradient_scale},
                                      weight, gradient, none, next, strange, index);
  }

  void average(backend& ops, const tensor& weight, optimizer_state& state) const override {
    const auto counted = static_cast<float>(std::max<std::int64_t>(state.step, 1));
    ops.get<optimizer_ops>().count_into_average(1.0F / counted, weight, state.tensors.at(0));
    ++state.step;
  }

  tensor in_use(const tensor& weight, const optimizer_state& state) const override {
    return state.step > 0 ? state.tensors.at(0) : weight;
  }

private:
  optimizer_options options_;
};

// torch.optim.Adam, or AdamW where the decay is decoupled.
class adam final : public optimizer {
public:
  adam(const optimizer_options& options, bool decoupled) : options_(options), decoupled_(decoupled) {
    expect_fraction(options.beta1, "beta1");
    expect_fraction(options.beta2, "beta2");
    expect_not_negative(options.weight_decay, "weight decay");
    if (!(options.epsilon > 0 && std::isfinite(options.epsilon))) // 0 would make NaN of padding and of unused weights
      throw usage_error("optimizer: epsilon is " + number_text(options.epsilon) + ", more than 0 is wanted");
  }

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void step(backend& ops, float learning_rate, float gradient_scale, bool decay, const tensor& weight,
            const tensor& gradient, optimizer_state& state, tensor& next, const tensor& strange,
            std::int64_t index) const override {
    begin_if_new(ops, weight, state, 2);
    ops.get<optimizer_ops>().adam_step({.learning_rate = learning_rate,
                                        .beta1 = options_.beta1,
                                        .beta2 = options_.beta2,
                                        .epsilon = options_.epsilon,
                                        .weight_decay = decay ? options_.weight_decay : 0,
                                        .decoupled = decoupled_,
                                        .gradient_scale = gradient_scale,
                                        .step = options_.bias_correction ? state.step + 1 : 0},
                                       weight, gradient, state.tensors[0], state.tensors[1], next, strange, index);
    ++state.step;
  }

private:
  optimizer_options options_;
  bool decoupled_;
};

} // namespace

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options) {
  if (options.name == "sgd") return std::make_unique<sgd>(options);
  if (options.name == "adam") return std::make_unique<adam>(options, false);
  if (options.name == "adamw") return std::make_unique<adam>(options, true);
  if (options.name == "asgd") return std::make_unique<asgd>(options);
  const std::array<std::string, 4> names{"sgd", "adam", "adamw", "asgd"};
  throw usage_error("unknown optimizer " + in_quotes(options.name) + did_you_mean(options.name, names) +
                    "; there are " + join(names, ", "));
}

} // namespace penstock
