// The family of recurrent networks: the LSTM, the additive attention of translation models, and what regularises them.
#pragma once

#include "kernels/random_key.hpp"
#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

/// In which order the four blocks of H rows stand in weights and biases: input, forget, candidate and output gate.
enum class gate_order : std::uint8_t { ifgo, ifog };

struct lstm_args {
  gate_order order = gate_order::ifgo;
  bool reverse = false; ///< each row from the last place within its length to its first
};

/// What an LSTM reads beside its weights; none where there is not any.
struct lstm_inputs {
  tensor x;         // (B, T, I)
  tensor lengths;   // i64 (B): a row rests beyond its length, its outputs there are zero
  tensor h, c;      // (B, H): the state before the first step; none: zeros. They get no gradient
  tensor continues; // (B, T): factors of h and c at the start of each step, 1 or 0; not in reverse
};

struct lstm_weights {
  tensor input;       // (4H, I)
  tensor hidden;      // (4H, H)
  tensor bias;        // (4H), or none
  tensor second_bias; // (4H), or none
};

struct lstm_result {
  tensor y;    // (B, T, H)
  tensor h, c; // (B, H): the state after each row's last step
  tensor gates,
      cells; ///< for the backward, 5 floats for each of T, B and H; none in evaluation. The device's own layout
};

struct lstm_input_gradients {
  tensor x;     // (B, T, I), none where not wanted
  tensor gates; ///< for the weights' part, 4 floats for each of T, B and H
};

struct lstm_weight_gradients {
  tensor input, hidden;
  tensor bias; ///< of each bias there is; none where there is none
};

/// What AWD-LSTM adds to its loss (Merity, Keskar and Socher 2017): AR and TAR.
enum class penalty : std::uint8_t {
  activation, ///< sum of h^2
  step,       ///< sum of (h_t - h_(t-1))^2 over t > 0
};

struct additive_inputs {
  tensor query;   // (B, Tq, F), projected
  tensor key;     // (B, Tk, F), projected
  tensor value;   // (B, Tk, D)
  tensor lengths; // i64 (B) of key and value, or none
  tensor vector;  // (F): u
  tensor scalar;  // (1): g
  tensor bias;    // (F): b
};

struct additive_result {
  tensor context;       // (B, Tq, D)
  tensor probabilities; // (B, Tq, Tk)
};

struct additive_gradients {
  tensor query, key, value;
  tensor vector, scalar, bias;
};

/// Plain f32 tensors but for lengths. Nothing is overwritten.
class recurrent_ops {
public:
  static constexpr std::string_view family = "recurrent networks";
  virtual ~recurrent_ops() = default;

  /// i, f, o = sigmoid, g = tanh of W_input x + W_hidden h + biases; c = f c + i g; h = o tanh c (Hochreiter and
  /// Schmidhuber 1997, as torch.nn.LSTM has it). `keep`: for a backward.
  virtual lstm_result lstm_forward(const lstm_args& args, const lstm_inputs& inputs, const lstm_weights& weights,
                                   bool keep) = 0;
  /// `made`: y, gates and cells of the forward.
  virtual lstm_input_gradients lstm_backward_input(const lstm_args& args, const lstm_inputs& inputs,
                                                   const lstm_weights& weights, const lstm_result& made,
                                                   const tensor& dy, bool want_dx) = 0;
  /// `gates` as the input's part made it. Gradients are those of the weights that the forward was given.
  virtual lstm_weight_gradients lstm_backward_weight(const lstm_args& args, const lstm_inputs& inputs, const tensor& y,
                                                     const tensor& gates, bool has_bias) = 0;

  /// s_ij = v tanh(q_i + k_j + b) with v = g u / |u|; p_i = softmax of s_i over the keys within their length; context
  /// sum_j p_ij value_j (Bahdanau, Cho and Bengio 2015, normalised as by Salimans and Kingma 2016). Nothing of extent
  /// Tq Tk F is ever in memory. A row of length 0 has the context 0.
  virtual additive_result additive_attention(const additive_inputs& inputs) = 0;
  virtual additive_gradients additive_attention_backward(const additive_inputs& inputs, const tensor& probabilities,
                                                         const tensor& dcontext) = 0;

  /// x (B, T, F): element (b, f) of every step is kept, and scaled by 1 / (1 - p), or zeroed together, as
  /// dropout_random says of number b F + f. The backward is the same on dy.
  virtual tensor locked_dropout(const random_key& key, float p, const tensor& x) = 0;

  /// f64 [1]: factor times that sum over h (B, T, F).
  virtual tensor penalty_sum(penalty kind, const tensor& h, double factor) = 0;
  /// Its gradient.
  virtual tensor penalty_gradient(penalty kind, const tensor& h, float factor) = 0;
};

} // namespace penstock
