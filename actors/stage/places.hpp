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

/// Stages that tell the metrics of each micro-batch.
int metrics_tellers(const pipeline& p);

} // namespace penstock::actors
