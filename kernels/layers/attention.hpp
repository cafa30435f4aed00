// Attention of several heads, between the linear layers that make its queries, keys and values and the one behind it.
#pragma once

#include "kernels/layer.hpp"

#include <optional>

namespace penstock::layers {

struct attention_options {
  float dropout = 0;            ///< of the probabilities, in training
  std::optional<float> scale{}; ///< of the scores; unset: 1 / sqrt(features of a head)
  bool causal = false;          ///< a query sees no later key
};

/// q (B, T, H), k and v (B, S, H) -> (B, T, H), or of one (B, T, 3 H), q, k and v side by side as torch's in_proj makes
/// them. One more input, lengths i64 (B): keys from that one on are not seen; a query that sees none gives zeros, and a
/// length outside the sequence is told, as a token id is by embedding. Head h has features [h H / heads, (h + 1) H /
/// heads). Keeps its inputs and a number for each query and head; the backward computes the probabilities again.
layer_ptr attention(std::int64_t heads, attention_options options = {});

} // namespace penstock::layers
