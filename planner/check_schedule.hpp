// The static checker that every schedule passes before anything runs it.
#pragma once

#include "planner/schedule.hpp"
#include "planner/sequence.hpp"

#include <optional>
#include <string>
#include <vector>

namespace penstock::planner {

/// Plays the sequences in their exact order with the source's and stages' credits. Returns nothing when all is well,
/// else one line with the first fault: an action that never becomes runnable (with the wait-for cycle), a credit
/// exceeded, a micro-batch missing, twice or on the wrong replica of a stage, a backward before its forward or after
/// the update that needs it, more weight gradients to come than the stage may delay, a version read that no update
/// writes, that differs from the forward's (unless the schedule says so) or is older than the stage's readable
/// versions, updates that differ between replicas, anything but forwards on a frozen stage. What it passes also runs
/// under any window.
///
/// A long run is proved by its period: the time does not depend on the minibatches where the pipeline settles into one,
/// else it is linear in the actions. Throws std::invalid_argument for an unknown name.
std::optional<std::string> check_schedule(const schedule& s);
/// The same with an order for each of workers_of().
std::optional<std::string> check_schedule(const schedule& s, const std::vector<sequence>& orders);
/// The same by walking all of it, however long.
std::optional<std::string> walk_schedule(const schedule& s, const std::vector<sequence>& orders);

/// A run of fewer minibatches that is right exactly if this one is; nothing where none was found.
std::optional<std::int64_t> equivalent_minibatches(const schedule& s, const std::vector<sequence>& orders);

} // namespace penstock::planner
