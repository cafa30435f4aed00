// What a profile says of a model beside its measurements.
#pragma once

#include "actors/profiler/profile_model.hpp"
#include "actors/stage/pipeline.hpp"

namespace penstock::actors {

/// Fills in model, machine, layers, and the groups of layers that share a tensor or should stay together.
void describe_model(planner::profile& p, const pipeline& parts, const profile_options& o);

} // namespace penstock::actors
