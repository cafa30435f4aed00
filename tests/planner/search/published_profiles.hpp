// PipeDream's published profiles.
#pragma once

#include "planner/profile/profile.hpp"

#include <string>

namespace penstock::planner::testing {

/// `name` as in "vgg16".
profile published_profile(const std::string& name);

} // namespace penstock::planner::testing
