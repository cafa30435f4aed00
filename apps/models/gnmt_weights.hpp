// The spellings of GNMT's weights that are in use.
#pragma once

#include "kernels/weights_adapter.hpp"

namespace penstock::apps {

/// State dictionaries of MLPerf's GNMT: with "module." in front, and with the further names under which its first layer
/// keeps the same LSTM (bidir, layer1, layer2). A model with two tables takes a lone one for both languages. Throws
/// usage_error where two names of one tensor hold different numbers.
adapted_weights adapt_gnmt_weights(const model& net, safetensors_contents& file);

} // namespace penstock::apps
