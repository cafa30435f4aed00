// Brings the delayed device into a program: --plugin libdelayed_device.so --device delayed. As --device patchwork each
// rank of a job has a library of its own.
#include "apps/plugins/plugin_api.hpp"
#include "tests/support/delayed/delayed_kind.hpp"

#include <cstdlib>

namespace {

void add_device(penstock::apps::plugin_registry&) {
  penstock::add_device_kind(penstock::testing::delayed_kind("delayed"));
  auto patchwork = penstock::testing::delayed_kind("patchwork");
  const char* rank = std::getenv("PENSTOCK_RANK");
  patchwork.computed_by = std::string("library ") + (rank != nullptr ? rank : "0");
  penstock::add_device_kind(std::move(patchwork));
}

} // namespace

PENSTOCK_PLUGIN("delayed_device", add_device)
