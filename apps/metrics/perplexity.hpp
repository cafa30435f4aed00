// Perplexity, from sums that a loss adds up.
#pragma once

#include <cmath>

namespace penstock::apps {

/// exp(nll / tokens): `nll` is the sum of -log p over the tokens that are predicted, <eos> included. NaN of no tokens.
inline double perplexity(double nll, double tokens) {
  return std::exp(nll / tokens);
}

} // namespace penstock::apps
