// The part of the history checker that looks at what stages sent each other.
#pragma once

#include "actors/trace/record.hpp"
#include "actors/trace/violations.hpp"
#include "tools/trace/epoch_check.hpp"

#include <vector>

namespace penstock::actors {

/// Adds what is wrong with the messages between stages of a whole plan epoch: each that was sent must have been
/// received once, and not before it was sent. `header`: the epoch's own.
void check_messages(const checked_epoch& epoch, const trace_header& header, const std::vector<trace_record>& records,
                    violations& found);

} // namespace penstock::actors
