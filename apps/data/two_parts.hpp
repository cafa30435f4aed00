// Which files the parts of a data set are.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

namespace penstock::apps {

struct two_parts {
  std::string train;
  std::string test; ///< "" where there is none
};

/// `where` is a folder with `train` and perhaps one of `tests` (the first that is there), a file, or two files with a
/// comma between.
inline two_parts two_parts_of(const std::string& where, const char* train, std::initializer_list<const char*> tests) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(where, ignored)) {
    const fs::path folder(where);
    for (const char* name : tests)
      if (fs::exists(folder / name, ignored)) return {folder / train, folder / name};
    return {folder / train, ""};
  }
  const auto comma = where.find(',');
  if (comma == std::string::npos || fs::exists(where, ignored)) return {where, ""};
  return {where.substr(0, comma), where.substr(comma + 1)};
}

} // namespace penstock::apps
