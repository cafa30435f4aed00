// How these tests start the real binaries.
#pragma once

#include "tests/support/process.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace penstock::test {

/// Long enough for a busy machine; only a hang reaches it.
inline constexpr std::chrono::seconds patience{120};

/// "lenet" and arguments, with the program's full path.
std::vector<std::string> program(const std::string& name, std::vector<std::string> arguments = {});

/// LeNet, narrow, on a few synthetic images and one thread, and these arguments.
std::vector<std::string> tiny_lenet(std::vector<std::string> arguments = {});

} // namespace penstock::test
