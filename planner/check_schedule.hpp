// The static checker that every schedule passes before anything runs it.
#pragma once

#include "planner/schedule.hpp"

#include <optional>

namespace penstock::planner {

/// Plays the lists in their exact order with the source's and stages' credits. Returns nothing when all is well, else
/// one line with the first fault: an action that never becomes runnable (with the wait-for cycle), a credit exceeded, a
/// micro-batch missing, twice or on the wrong replica of a stage, a backward before its forward or after the update
/// that needs it, a version read that no update writes, that differs from the forward's (unless the schedule says so)
/// or is older than the stage's readable versions, updates that differ between replicas. Takes time linear in the
/// actions. What it passes also runs under any window.
std::optional<std::string> check_schedule(const schedule& s);

} // namespace penstock::planner
