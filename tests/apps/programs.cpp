// Paths come from CMake.
#include "tests/apps/programs.hpp"

namespace penstock::test {

std::vector<std::string> program(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PROGRAMS "/" + name);
  return arguments;
}

std::vector<std::string> tiny_lenet(std::vector<std::string> arguments) {
  const std::vector<std::string> tiny{"--synthetic-samples", "64", "--batch", "8", "--threads", "1"};
  arguments.insert(arguments.begin(), tiny.begin(), tiny.end());
  return program("lenet", std::move(arguments));
}

} // namespace penstock::test
