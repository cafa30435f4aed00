// Softmax cross-entropy of a classifier.
#pragma once

#include "kernels/loss_function.hpp"

namespace penstock::losses {

/// Of logits (N, classes) and i64 labels (N); label smoothing as PyTorch. Sums loss, correct, correct5. A label outside
/// [0, classes) ends the run.
loss_ptr cross_entropy(float label_smoothing = 0);

} // namespace penstock::losses
