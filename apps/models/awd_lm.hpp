// The AWD LSTM language model.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

/// Inputs: input and labels i64 (B, time), labels of -100 count for nothing. Losses: the cross-entropy of the tokens,
/// and in training AR and TAR of the last LSTM.
model_entry awd_lm_entry();

} // namespace penstock::apps
