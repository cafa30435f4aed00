// The published graphs as profiles.
#include "tests/planner/search/published_profiles.hpp"

#include "tests/support/published_graph.hpp"

namespace penstock::planner::testing {

profile published_profile(const std::string& name) {
  return profile_from_graph(test::published_graph(name), name);
}

} // namespace penstock::planner::testing
