// Linked into a test's program: with PENSTOCK_TEST_DEVICE=delayed all that is opened as cpu:0 is the delayed device.
#include "tests/support/delayed/delayed_kind.hpp"

#include <cstdlib>
#include <string_view>

namespace {

[[maybe_unused]] const bool is_chosen = [] {
  const char* wanted = std::getenv("PENSTOCK_TEST_DEVICE");
  if (wanted == nullptr || std::string_view(wanted) != "delayed") return false;
  penstock::add_device_kind(penstock::testing::delayed_kind("cpu"));
  return true;
}();

} // namespace
