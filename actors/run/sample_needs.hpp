// Whether every micro-batch of a run has the samples that the model's layers want, asked before anything is computed.
#pragma once

#include "actors/run_options.hpp"
#include "kernels/model.hpp"

namespace penstock::actors {

/// Throws usage_error where the last minibatch of an epoch is dropped and there is no other.
void require_whole_minibatch(const run_options& options, std::int64_t samples);

/// Throws usage_error, which names minibatch, micro-batches and layer, where one of the first `steps` minibatches has a
/// micro-batch of fewer samples than a layer can be trained on: BatchNorm on one value a channel has no variance.
/// Layers before `frozen_until` are not trained.
void require_enough_samples(const model& net, const epoch_minibatches& minibatches, std::int64_t batch,
                            std::int64_t steps, int microbatches, int frozen_until);

} // namespace penstock::actors
