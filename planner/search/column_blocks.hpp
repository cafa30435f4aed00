// How the columns of a minibatch are dealt to replicas where minibatches hand something on.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::planner {

/// Blocks that a minibatch's columns are in under such replica counts: their least common multiple, held at 1e12.
std::int64_t column_blocks_of(const std::vector<int>& replicas);

/// Every number of blocks that replica counts with at most this sum have, ascending. Beyond 16 devices there are too
/// many: then powers of two, and before them 0, which stands for any.
std::vector<std::int64_t> possible_column_blocks(int devices);

} // namespace penstock::planner
