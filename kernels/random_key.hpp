// Names a random stream of a run.
#pragma once

#include <cstdint>

namespace penstock {

/// A random stream that depends on what is computed, never on where or when.
struct random_key {
  std::uint64_t seed = 0;
  std::uint64_t layer = 0; // hash of the layer's global name
  std::int64_t minibatch = 0;
  std::int32_t microbatch = 0;
};

} // namespace penstock
