// Where the parts of a pipeline stand: what their cores need to know of the plan and the options.
#pragma once

#include "actors/run/coordinator_core.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/stage/worker_core.hpp"

namespace penstock::actors {

worker_place place_of(const pipeline& p, const planner::worker& w, const run_options& options,
                      std::int64_t source_credit, std::int64_t plan_epoch = 0);
coordinator_place place_of(const pipeline& p, const run_options& options);

} // namespace penstock::actors
