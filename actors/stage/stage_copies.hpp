// What the owners of a stage tell of it at a drain: copies, measures, and whether all numbers are finite.
#pragma once

#include "actors/run/executor.hpp"

namespace penstock::actors {

/// Of what an optimizer owns, on a stream of its device; the bytes are there when the work is settled. `tells` throws
/// penstock::error that names the tensor, its stage, the first bad value and its place for copy_of::nothing where
/// optimizer state is not finite (weights are looked through as they are updated); `after` ends the line.
stage_copy copy_learnt(backend& ops, const pipeline& p, const stage_unit& s, const stage_weights& owned, copy_of what,
                       const std::string& after, memory_pool& pool, outcome& tells);

/// Of what a replica owns, likewise.
stage_copy copy_states(backend& ops, const stage_unit& s, int replica, std::span<const tensor> states, copy_of what,
                       const std::string& after, memory_pool& pool, outcome& tells);

stage_measures measure_stage(const stage_unit& s, const stage_weights& owned);

} // namespace penstock::actors
