// The published graphs as profiles.
#include "tests/planner/search/published_profiles.hpp"

#include "tests/support/published_graph.hpp"

namespace penstock::planner::testing {

std::optional<profile> published_profile(const std::string& name) {
  const auto text = test::published_graph(name);
  if (!text) return std::nullopt;
  return profile_from_graph(*text, name);
}

} // namespace penstock::planner::testing
