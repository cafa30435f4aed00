// Where the parts of a pipeline stand: what their cores need to know of the plan and the options.
#pragma once

#include "actors/core/coordinator_core.hpp"
#include "actors/core/stage_core.hpp"
#include "actors/pipeline.hpp"

namespace penstock::actors {

/// Of the first plan epoch, unless the caller says otherwise.
stage_place place_of(const pipeline& p, const stage_unit& s, int replica, const run_options& options,
                     std::int64_t source_credit);
coordinator_place place_of(const pipeline& p, const run_options& options);

} // namespace penstock::actors
