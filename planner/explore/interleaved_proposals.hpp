// Partitions for the interleaved schedule: v chunks of the model on each of n worker positions.
#pragma once

#include "planner/explore/pins.hpp"
#include "planner/explore/settings.hpp"
#include "planner/explore/trial.hpp"

#include <vector>

namespace penstock::planner {

/// For every number of positions n and of chunks v that may be tried, and every replica count that the devices allow,
/// the model in v n stages by the exact search of pinned shapes, as if each had devices of its own: the slowest chunk
/// is as fast as can be, so that a position, which hosts chunks p, p + n, ..., has at most v times its time. Each chunk
/// is then given its position's devices. Memory, which the chunks of a position share, is for the simulation to judge;
/// where devices have a limit each partition comes again with all stages recomputing. v is 2 to 4 (2
/// on more than eight devices) unless it is pinned. Empty on devices of several types, and for graphs of very many
/// places to cut. `cuts` as fixed_shape.
std::vector<proposal> propose_interleaved(const exploration& e, const pins& fixed, const setting& how, const cluster& c,
                                          const std::vector<int>& cuts);

} // namespace penstock::planner
