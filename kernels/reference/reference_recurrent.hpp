// Recurrent networks by their formulas, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/recurrent_ops.hpp"

namespace penstock {

class reference_recurrent final : public recurrent_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_recurrent(backend& memory) : memory_(memory) {}

  lstm_result lstm_forward(const lstm_args& args, const lstm_inputs& inputs, const lstm_weights& weights,
                           bool keep) override;
  lstm_input_gradients lstm_backward_input(const lstm_args& args, const lstm_inputs& inputs,
                                           const lstm_weights& weights, const lstm_result& made, const tensor& dy,
                                           bool want_dx) override;
  lstm_weight_gradients lstm_backward_weight(const lstm_args& args, const lstm_inputs& inputs, const tensor& y,
                                             const tensor& gates, bool has_bias) override;
  additive_result additive_attention(const additive_inputs& inputs) override;
  additive_gradients additive_attention_backward(const additive_inputs& inputs, const tensor& probabilities,
                                                 const tensor& dcontext) override;
  tensor locked_dropout(const random_key& key, float p, const tensor& x) override;
  tensor penalty_sum(penalty kind, const tensor& h, double factor) override;
  tensor penalty_gradient(penalty kind, const tensor& h, float factor) override;

private:
  backend& memory_;
};

} // namespace penstock
