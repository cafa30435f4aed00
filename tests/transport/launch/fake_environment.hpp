// A launcher's variables without a launcher.
#pragma once

#include "kernels/check.hpp"
#include "transport/launch/launch.hpp"

#include <map>
#include <string>

namespace penstock::transport {

using variable_map = std::map<std::string, std::string>;

inline environment fake_environment(variable_map variables) {
  return [all = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = all.find(name);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

inline launch read_from(variable_map variables, const launch_flags& flags = {}) {
  return read_launch(flags, fake_environment(std::move(variables)));
}

/// What the usage_error says; "accepted" when there is none.
inline std::string refusal_of(variable_map variables, const launch_flags& flags = {}) {
  try {
    read_from(std::move(variables), flags);
  } catch (const usage_error& fault) {
    return fault.what();
  }
  return "accepted";
}

inline variable_map operator+(variable_map base, const variable_map& more) {
  for (const auto& [name, value] : more)
    base[name] = value;
  return base;
}

} // namespace penstock::transport
