// Looks where the environment says, then beside the sources.
#include "tests/support/published_graph.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace penstock::test {

std::optional<std::string> published_graph(const std::string& name) {
  std::vector<std::filesystem::path> places;
  if (const auto* given = std::getenv("PENSTOCK_SHARED")) places.emplace_back(given);
  for (auto folder = std::filesystem::absolute(__FILE__).parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    places.push_back(folder / "shared");
  for (const auto& place : places) {
    const std::ifstream file(place / "data" / "pipedream-profiles" / (name + ".txt"));
    if (!file) continue;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  return std::nullopt;
}

} // namespace penstock::test
