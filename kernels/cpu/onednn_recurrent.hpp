// Recurrent networks by loops of our own: oneDNN's LSTM keeps 19.5 floats where 5 are enough.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/recurrent_ops.hpp"
#include "kernels/vector_width.hpp"

#include <vector>

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
  /// An LSTM's weights as its tiles read them.
  struct packed_lstm {
    tensor input, hidden, bias;
  };
  /// Of an evaluation's call for a single step, which comes again and again with the same weights where text is written
  /// token by token: packing takes as long as such a step. Their handles are kept with them, so nobody writes into
  /// them; the next call of another kind lets go of all.
  struct kept_lstm {
    lstm_weights of;
    gate_order order;
    vector_width width;
    packed_lstm packed;
  };
  std::vector<kept_lstm> kept_;
  /// Floats whose values are nobody's business afterwards.
  tensor scratch(std::int64_t floats) { return context_.allocate(dtype::f32, {floats}, memory_use::scratch); }

  onednn_context& context_;
};

} // namespace penstock
