// The assertion behind check().
#include "kernels/check.hpp"

namespace penstock {

void check(bool condition, const char* message, std::source_location where) {
  if (condition) return;
  throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " + message);
}

} // namespace penstock
