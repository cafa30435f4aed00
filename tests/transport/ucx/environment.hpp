// Variables of the environment that last as long as a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace penstock::transport {

/// Sets a variable, and puts back what was there. Not while other threads read the environment.
class set_variable {
public:
  set_variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~set_variable() {
    if (before_)
      ::setenv(name_.c_str(), before_->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  set_variable(const set_variable&) = delete;
  set_variable& operator=(const set_variable&) = delete;

private:
  const std::string name_;
  std::optional<std::string> before_;
};

} // namespace penstock::transport
