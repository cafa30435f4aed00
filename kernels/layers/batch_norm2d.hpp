// Batch normalisation of images, with running statistics for evaluation.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/ops/normalisation_ops.hpp"

namespace penstock::layers {

/// Of (N, channels, H, W). Parameters weight, bias; state running_mean, running_var (unbiased), num_batches_tracked
/// (i64, shape []). Computes a ReLU behind it within itself.
layer_ptr batch_norm2d(std::int64_t channels, batch_norm_args args = {});

} // namespace penstock::layers
