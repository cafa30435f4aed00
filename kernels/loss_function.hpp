// The interface of a loss: a node of a model that computes sums over samples, and their gradients.
#pragma once

#include "kernels/layer.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

class loss_function;
using loss_ptr = std::shared_ptr<const loss_function>;

/// A number that is shown of a loss's sums: the quotient of two, or e to its power.
struct shown_ratio {
  std::string name;   ///< "accuracy", "perplexity"
  std::size_t of = 0; ///< index in loss_function::sums()
  int by = by_count;  ///< the same, or what the loss is divided by
  bool exponential = false;
  bool in_steps = true; ///< of each training step too, not of evaluations alone
  static constexpr int by_count = -1;
};

/// Stateless, shared by replicas and threads. Labels are inputs like any other; they get no gradient.
class loss_function {
public:
  struct forward_value {
    tensor sums;               ///< f64, on the device; the first places are those of sums()
    std::vector<tensor> saved; ///< what backward needs; may be empty when evaluating
  };

  virtual ~loss_function() = default;
  /// "cross_entropy": for listings and messages.
  virtual std::string_view kind() const = 0;
  /// Throws usage_error with what was found and what was wanted.
  virtual void expect(std::span<const tensor_spec> inputs) const = 0;
  /// What is summed: "loss" first. They do not depend on shapes.
  virtual std::vector<std::string> sums() const = 0;
  virtual std::vector<shown_ratio> shown() const { return {}; }

  virtual forward_value forward(backend& ops, std::span<const tensor> inputs, phase mode) const = 0;
  /// Gradients of scale * sums[0], one per input, "none" for labels. `saved` may be consumed (moved from).
  virtual std::vector<tensor> backward(backend& ops, std::span<tensor> saved, float scale) const = 0;
  /// Of sums in the host's memory, for inputs of those shapes: throws penstock::error for data out of range.
  virtual void judge(const tensor& sums, std::span<const shape> inputs) const { (void)sums, (void)inputs; }

  /// How many of these labels, the last input, count; nothing where that is not for labels to say.
  virtual std::optional<std::int64_t> counted(std::span<const std::int64_t> labels) const {
    return (void)labels, std::nullopt;
  }
  /// The same with labels smoothed so much; null where it reads no labels that could be.
  virtual loss_ptr smoothed(float smoothing) const { return (void)smoothing, nullptr; }
};

} // namespace penstock
