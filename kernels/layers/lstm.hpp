// One direction of a long short-term memory.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/recurrent_ops.hpp"

#include <optional>

namespace penstock::layers {

/// Of the parameters, in this order; the layer's own name comes before them.
struct lstm_names {
  std::string weight_ih = "weight_ih_l0";
  std::string weight_hh = "weight_hh_l0";
  std::string bias_ih = "bias_ih_l0";
  std::string bias_hh = "bias_hh_l0";
};

struct lstm_options {
  lstm_names names{};
  int biases = 2; ///< 2: PyTorch's, which get the same gradient; 1: bias_ih alone; 0
  gate_order gates = gate_order::ifgo;
  bool reverse = false;   ///< each row from its last place to its first; needs `lengths`
  bool lengths = false;   ///< takes lengths; what lies beyond them is zero and changes no state
  bool state = false;     ///< takes h and c of before the first step, gives those after each row's last
  bool carried = false;   ///< begins where the minibatch before ended: hands on "h" and "c". Without state, lengths
  bool continues = false; ///< takes factors of h and c at the start of each step, 0 to begin anew; not in reverse
  float weight_drop = 0;  ///< DropConnect of weight_hh (Merity, Keskar and Socher 2017), one mask for a minibatch
  /// Unset: PyTorch's default, uniform(+-1/sqrt(hidden)).
  std::optional<initializer> weight_init{}, bias_ih_init{}, bias_hh_init{};
};

/// As torch.nn.LSTM with batch_first and one layer. Inputs: x (B, T, I), then where the options say so lengths i64 (B),
/// h and c (B, H), continues (B, T). Outputs: y (B, T, H), and with `state` h and c (B, H). The state has no gradient.
/// Parameters: weight_ih (4H, I), weight_hh (4H, H), biases (4H).
layer_ptr lstm(std::int64_t hidden, lstm_options options = {});

} // namespace penstock::layers
