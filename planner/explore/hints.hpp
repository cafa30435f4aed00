// What a model would rather have in one stage, and what parting it must gain.
#pragma once

#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <string>

namespace penstock::planner {

/// A cut between layers that the model keeps together (profile::kept_together) is taken only where the best without
/// any such cut would take more than so many times as long: in hand-made cuts by estimated work, in a search by
/// predicted step.
inline constexpr double worth_parting = 1.15;

/// The first of the model's groups that has layers in several of the plan's stages, as "first..last"; "" where none
/// has. Throws std::invalid_argument as layers_of_stages().
std::string parted_group(const plan& made, const profile& p);

} // namespace penstock::planner
