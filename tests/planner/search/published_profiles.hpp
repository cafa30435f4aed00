// PipeDream's published profiles, where the shared data folder is there.
#pragma once

#include "planner/profile/profile.hpp"

#include <optional>
#include <string>

namespace penstock::planner::testing {

/// `name` as in "vgg16"; from the folder that PENSTOCK_SHARED names, else from a `shared` folder beside the checkout.
std::optional<profile> published_profile(const std::string& name);

} // namespace penstock::planner::testing
