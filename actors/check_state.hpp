// What a stretch of training left behind: no NaN, no infinity, no negative variance may reach an evaluation or a file.
#pragma once

#include "actors/pipeline.hpp"

namespace penstock::actors {

/// Looks through BatchNorm statistics and optimizer state of this rank; the weights are looked through as they are
/// updated. The pipeline must be at rest. Throws penstock::error that names the tensor, its stage, the first bad value
/// and its place; `after` ends the line ("after 40 steps").
void require_finite_state(pipeline& p, const std::string& after);

} // namespace penstock::actors
