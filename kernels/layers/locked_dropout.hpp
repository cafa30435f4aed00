// Dropout with one mask for all time steps.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// (B, T, F), with probability p in [0, 1): element (b, f) is dropped in all steps or in none (variational dropout, Gal
/// and Ghahramani 2016, as AWD-LSTM has it); nothing in evaluation.
layer_ptr locked_dropout(float p);

} // namespace penstock::layers
