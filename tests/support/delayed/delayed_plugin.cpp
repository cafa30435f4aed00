// Brings the delayed device into a program: --plugin libdelayed_device.so --device delayed.
#include "apps/plugins/plugin_api.hpp"
#include "tests/support/delayed/delayed_kind.hpp"

namespace {

void add_device(penstock::apps::plugin_registry&) {
  penstock::add_device_kind(penstock::testing::delayed_kind("delayed"));
}

} // namespace

PENSTOCK_PLUGIN("delayed_device", add_device)
