// The project's exceptions and its one assertion.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace penstock {

/// A run that failed: bad data, a full disk, a broken peer. A program ends with exit code 1. The message is one line.
class error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A request that cannot be carried out as given: an option, a plan, a file of the wrong form. Exit code 2. The message
/// is one line and names the thing, what was found and what was wanted.
class usage_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Throws std::logic_error with the caller's place when an invariant of our own is broken. Not for bad input.
void check(bool condition, const char* message, std::source_location where = std::source_location::current());

} // namespace penstock
