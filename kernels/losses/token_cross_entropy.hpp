// Softmax cross-entropy of every token of a sequence that counts.
#pragma once

#include "kernels/loss_function.hpp"

namespace penstock::losses {

struct token_options {
  std::int64_t ignored = -100; ///< the label of a token that does not count: PyTorch's; GNMT has its padding, 0
  /// Labels of V or more are left out as well: places in a text that a window of it has cut off, as BERT's of spans.
  bool ignores_beyond = false;
  float label_smoothing = 0; ///< in training; an evaluation's loss, and so its perplexity, is without
};

/// Of logits (..., V) and i64 labels (...), as many as there are rows of logits. Sums loss, tokens, correct over the
/// tokens that count. What it is divided by is the model's to say: tokens, or samples as GNMT has it. A label outside
/// [0, V) that is not the ignored one ends the run.
loss_ptr token_cross_entropy(token_options options = {});

} // namespace penstock::losses
