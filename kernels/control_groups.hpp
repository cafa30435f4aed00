// What the control groups of this process limit, of both hierarchies.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace penstock {

/// The limit that a group's folder holds, or nothing.
using group_limit = std::function<std::optional<double>(const std::filesystem::path& group)>;

/// The least limit of this process's own group and of all above it: `of_version_2` reads the folders of the unified
/// hierarchy, `of_version_1` those of `controller`. Nothing where none is limited, or the system does not say. `root`
/// stands for "/".
std::optional<double> least_of_groups(const std::filesystem::path& root, const std::string& controller,
                                      const group_limit& of_version_2, const group_limit& of_version_1);

/// The first number of a file, and its second where asked for. What cannot be read does not limit: the file of the root
/// group, of a kernel without such limits, of another's container, and the word "max".
std::optional<double> first_number_in(const std::filesystem::path& file, double* second = nullptr);

} // namespace penstock
