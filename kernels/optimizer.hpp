// Optimizers and learning-rate schedules: from weights and a gradient to the next weight version, in one pass.
#pragma once

#include "kernels/backend.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace penstock {

struct optimizer_options {
  std::string name = "sgd"; ///< sgd, adam, adamw or asgd
  float momentum = 0.9F;
  bool nesterov = false;
  float weight_decay = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  bool bias_correction = true; ///< adam, adamw; without: BERT's
  /// asgd: minibatches after which weights are averaged; below 0: never.
  std::int64_t average_from = 0;
};

/// State of one parameter: tensors in the parameter's format, zero before the first step.
struct optimizer_state {
  std::vector<tensor> tensors;
  std::int64_t step = 0; ///< updates done; of asgd: weights counted into the average
};

/// Stateless; the state travels with its parameter.
class optimizer {
public:
  virtual ~optimizer() = default;
  /// Names of the state tensors, for checkpoints: "momentum", "exp_avg" and "exp_avg_sq", or "average".
  virtual std::vector<std::string> state_names() const = 0;
  /// next = step(weight, gradient * gradient_scale); counts state.step up. `next` may be `weight` itself. Element
  /// `index` of `strange` (i32, on the device) becomes 1 unless every value of `next` is finite: non-finite numbers
  /// that a layer swallowed (ReLU of NaN) come out here.
  virtual void step(backend& ops, float learning_rate, float gradient_scale, bool decay, const tensor& weight,
                    const tensor& gradient, optimizer_state& state, tensor& next, const tensor& strange,
                    std::int64_t index) const = 0;
  /// Counts the weight, new from a step, into a running average, where the optimizer keeps one.
  virtual void average(backend&, const tensor&, optimizer_state&) const {}
  /// What is evaluated and saved as the weight: the average, once there is one.
  virtual tensor in_use(const tensor& weight, const optimizer_state&) const { return weight; }
};

/// Throws usage_error for an unknown name (with the nearest) or a value out of range.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options);

struct lr_schedule_options {
  std::string name = "constant"; ///< constant, step, cosine, polynomial, gnmt
  float base = 0.01F;
  std::int64_t total_steps = 0;  ///< minibatches of the run; cosine and polynomial end there
  std::int64_t warmup_steps = 0; ///< linear from base / warmup_steps up to base; gnmt: exponential
  std::int64_t step_every = 0;   ///< step: minibatches between drops
  float gamma = 0.1F;            ///< step: factor of a drop
  float power = 2.0F;            ///< polynomial
  std::int64_t halvings = 4;     ///< gnmt: in the last part of the run, evenly
  float until = 0.666F;          ///< gnmt: the part of the run before the first of them
  float final_fraction = 0;      ///< cosine, polynomial: where they end, as a part of base
};

/// Learning rate of the minibatch with that global index (0-based). A pure function.
float learning_rate(const lr_schedule_options& options, std::int64_t minibatch);

/// "constant", "step:every=1000,gamma=0.1", "cosine", "polynomial:power=2", each with ",warmup=500" and
/// ",final=0.01"; "gnmt:warmup=200,halvings=4,until=0.666". Throws usage_error naming the part that is wrong.
lr_schedule_options parse_lr_schedule(std::string_view text);

} // namespace penstock
