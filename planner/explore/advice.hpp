// What to say where nothing that was asked for can run.
#pragma once

#include "planner/explore/explorer.hpp"

#include <string>

namespace penstock::planner {

/// One line: by how many bytes the best partition misses and on which stage, and what would fit: recomputation, fewer
/// in flight, other schedules, micro-batches, numbers of stages or devices, where the request rules them out; else how
/// many devices would do. Each of them is explored, not guessed.
std::string advice(const profile& p, const cluster& c, const plan_request& request, const trial& best);

/// Why no partition is possible at all: a schedule's own refusal of the shape, or a model with too few places to cut.
std::string why_none(const explorer& e, const plan_request& request);

} // namespace penstock::planner
