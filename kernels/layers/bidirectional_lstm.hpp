// A long short-term memory that reads each row in both directions.
#pragma once

#include "kernels/layer.hpp"

#include <optional>

namespace penstock::layers {

struct bidirectional_lstm_options {
  /// Unset: PyTorch's default, uniform(+-1/sqrt(hidden)).
  std::optional<initializer> weight_init{}, bias_ih_init{}, bias_hh_init{};
};

/// As torch.nn.LSTM(bidirectional) over packed sequences: x (B, T, I), lengths i64 (B) -> (B, T, 2H), the forward
/// direction's units first, zero beyond the lengths. Parameters: weight_ih_l0 (4H, I), weight_hh_l0 (4H, H),
/// bias_ih_l0, bias_hh_l0 (4H), and the same with "_reverse".
layer_ptr bidirectional_lstm(std::int64_t hidden, bidirectional_lstm_options options = {});

} // namespace penstock::layers
