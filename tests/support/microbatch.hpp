// What a micro-batch of images is told of its minibatch.
#pragma once

#include "kernels/microbatch_info.hpp"

namespace penstock {

/// Of a model without varying extents, whose losses are divided by samples.
constexpr microbatch_info info_of(std::int64_t samples, std::int64_t minibatch_samples) {
  return {.samples = samples, .counts = {static_cast<double>(minibatch_samples)}};
}

} // namespace penstock
