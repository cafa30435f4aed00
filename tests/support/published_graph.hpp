// PipeDream's published profiles, which lie in tests/planner/pipedream_profiles with their licence.
#pragma once

#include <filesystem>
#include <string>

namespace penstock::test {

/// The file of a published profile, `name` as in "vgg16".
std::filesystem::path published_graph_file(const std::string& name);

/// Its text. Throws std::runtime_error where there is none of that name.
std::string published_graph(const std::string& name);

} // namespace penstock::test
