// The files of make_fixtures.py.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::apps {

using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TEXT_FIXTURES) / name;
}

inline std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

} // namespace penstock::apps
