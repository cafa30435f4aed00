// What a recurrent network pays for large activations, and for fast ones.
#pragma once

#include "kernels/loss_function.hpp"
#include "kernels/ops/recurrent_ops.hpp"

namespace penstock::losses {

/// Of h (B, T, F), the sum over samples of the mean over T and F of h^2, or over T - 1 and F of (h_t - h_(t-1))^2: AR
/// and TAR of AWD-LSTM (Merity, McCann and Socher 2017). Divided by the samples of a minibatch that is the mean over
/// all of it, since its samples have one T. One step alone has no second term. Sums loss.
loss_ptr activation_penalty(penalty kind);

} // namespace penstock::losses
