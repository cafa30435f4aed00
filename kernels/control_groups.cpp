// Reads the two hierarchies of control groups from the process's own group up to the root.
#include "kernels/control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace penstock {

namespace {

namespace fs = std::filesystem;

// Inside a container the group's name may begin above what is mounted there: then the longest end of it that is there.
fs::path group_below(const fs::path& mount, const fs::path& name) {
  std::vector<fs::path> parts;
  for (const auto& part : name.relative_path())
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  std::error_code ignored;
  for (std::size_t from = 0; from < parts.size(); ++from) {
    fs::path below = mount;
    for (std::size_t i = from; i < parts.size(); ++i)
      below /= parts[i];
    if (fs::is_directory(below, ignored)) return below;
  }
  return mount;
}

void take_least(const fs::path& mount, const fs::path& name, const group_limit& read, std::optional<double>& least) {
  for (auto group = group_below(mount, name);; group = group.parent_path()) {
    if (const auto limit = read(group)) least = std::min(least.value_or(*limit), *limit);
    if (group == mount) return;
  }
}

bool is_of(const std::string& controllers, const std::string& wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return false;
}

// Where a hierarchy of version 1 is mounted: under all its controllers' names, under one, or under the usual pair.
std::vector<fs::path> mounts_of(const fs::path& mounts, const std::string& controllers, const std::string& wanted) {
  std::vector<fs::path> places{mounts / controllers, mounts / wanted};
  if (wanted == "cpu") places.push_back(mounts / "cpu,cpuacct");
  return places;
}

} // namespace

std::optional<double> first_number_in(const fs::path& file, double* second) {
  std::ifstream in(file);
  double value = 0;
  if (!(in >> value)) return std::nullopt; // "max" too
  if (second != nullptr && !(in >> *second)) return std::nullopt;
  return value;
}

std::optional<double> least_of_groups(const fs::path& root, const std::string& controller,
                                      const group_limit& of_version_2, const group_limit& of_version_1) {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");
  const auto mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) { // "4:cpu,cpuacct:/user.slice", version 2: "0::/user.slice"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const fs::path name = line.substr(second + 1);
    std::error_code ignored;
    if (controllers.empty()) {
      take_least(mounts, name, of_version_2, least);
      if (const auto beside = mounts / "unified"; fs::is_directory(beside, ignored))
        take_least(beside, name, of_version_2, least);
    } else if (is_of(controllers, controller)) {
      for (const auto& mount : mounts_of(mounts, controllers, controller))
        if (fs::is_directory(mount, ignored)) take_least(mount, name, of_version_1, least);
    }
  }
  return least;
}

} // namespace penstock
