// The way of one minibatch through the pipeline, and the picture of many.
#pragma once

#include "actors/trace/reader.hpp"

#include <cstdint>
#include <string>

namespace penstock::actors {

/// One line for each forward, backward and update of the minibatch, in order of time: when (ms after its first), where,
/// how long it lay there since what it needs was ready, how long it took, which version it read or wrote. An update is
/// shown where its group holds the minibatch. Where the plan changed the head names the plan epoch. Throws
/// penstock::error when the trace has no such minibatch.
std::string lifeline(const trace_file& file, std::int64_t minibatch);

/// planner::draw_timeline of minibatches [from, to), seconds from the first one's begin; `width` columns. One picture
/// for each plan epoch that holds any of them, named where there are several: their rows are of different stages.
/// Throws penstock::error when the trace has none of them.
std::string timeline(const trace_file& file, std::int64_t from, std::int64_t to, int width);

} // namespace penstock::actors
