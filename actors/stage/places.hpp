// Where the parts of a pipeline stand: what their cores need to know of the plan and the options.
#pragma once

#include "actors/run/coordinator_core.hpp"
#include "actors/source/source_core.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/stage/worker_core.hpp"

namespace penstock::actors {

worker_place place_of(const pipeline& p, const planner::worker& w, const run_options& options,
                      std::int64_t source_credit, std::int64_t plan_epoch = 0);
coordinator_place place_of(const pipeline& p, const run_options& options);

/// Which stages read which of the model's inputs; stage 0 first, whether it reads any or not.
std::vector<input_reader> input_readers(const pipeline& p);
std::vector<std::string> input_names(const model& net);

/// Tensors that this stage uses and others too, in the model's order.
std::vector<shared_tensor> shared_tensors(const pipeline& p, int stage);
/// The other stages that use one of them, ascending.
std::vector<int> sharers_of(const pipeline& p, int stage);
/// Their gradients here, named by the tensor.
std::vector<named_tensor> uses_of(const std::vector<shared_tensor>& shared, const std::vector<tensor>& gradients);

/// The first stage that is not wholly frozen.
int first_active_stage(const pipeline& p);

/// Stages that tell the metrics of each micro-batch.
int metrics_tellers(const pipeline& p);

} // namespace penstock::actors
