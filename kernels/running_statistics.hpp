// PyTorch's running statistics of a batch normalisation, for devices whose memory the host reads.
#pragma once

#include "kernels/ops/normalisation_ops.hpp"

namespace penstock {

/// running = (1 - momentum) running + momentum batch, with the unbiased variance; `count`: values a channel.
inline void update_on_host(float momentum_wanted, std::int64_t count, const batch_norm_result& batch,
                           const running_statistics& running) {
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const double momentum = momentum_wanted;
  for (std::int64_t c = 0; c < running.mean.elements(); ++c) {
    float& mean = running.mean.data<float>()[c];
    float& variance = running.variance.data<float>()[c];
    mean = static_cast<float>((1 - momentum) * mean + momentum * batch.mean.data<float>()[c]);
    variance = static_cast<float>((1 - momentum) * variance + momentum * unbiased * batch.variance.data<float>()[c]);
  }
  running.batches.data<std::int64_t>()[0] += 1;
}

} // namespace penstock
