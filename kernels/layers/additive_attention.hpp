// GNMT's attention.
#pragma once

#include "kernels/layer.hpp"

#include <optional>

namespace penstock::layers {

struct additive_attention_options {
  bool lengths = true;        ///< takes the keys' lengths
  bool keys = false;          ///< takes W_k enc (B, Tk, H) too, last, which somebody computed once for many queries
  bool probabilities = false; ///< in evaluation: gives p (B, Tq, Tk) too; in training that output has no gradient
  /// Unset: uniform(+-1/sqrt(hidden)), the default of PyTorch's linear layers, and for linear_att too.
  std::optional<initializer> weight_init{}, vector_init{};
};

/// Normalised additive attention (Bahdanau, Cho and Bengio 2015): query (B, Tq, H), encoder outputs (B, Tk, H), lengths
/// i64 (B) -> context (B, Tq, H) = sum_j p_ij enc_j, p_i = softmax_j of v tanh(W_q query_i + W_k enc_j + b) within the
/// length, v = g u / |u|. Parameters, named as MLPerf's GNMT: linear_q.weight (H, H), linear_k.weight (H, H),
/// linear_att (H): u, normalize_scalar (1): g = 1/sqrt(H), normalize_bias (H): b = 0. With `keys` there is no linear_k.
layer_ptr additive_attention(std::int64_t hidden, additive_attention_options options = {});

} // namespace penstock::layers
