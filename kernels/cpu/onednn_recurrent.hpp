// Recurrent networks by loops of our own: oneDNN's LSTM keeps 19.5 floats where 5 are enough.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/recurrent_ops.hpp"

namespace penstock {

/// The same bits for any number of threads.
class onednn_recurrent final : public recurrent_ops {
public:
  explicit onednn_recurrent(onednn_context& context) : context_(context) {}

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
  /// Floats whose values are nobody's business afterwards.
  tensor scratch(std::int64_t floats) { return context_.allocate(dtype::f32, {floats}, memory_use::scratch); }

  onednn_context& context_;
};

} // namespace penstock
