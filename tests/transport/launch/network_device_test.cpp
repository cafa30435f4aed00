// Which device leads to a host.
#include "kernels/check.hpp"
#include "transport/launch/network_device.hpp"

#include <gmock/gmock.h>

namespace penstock::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(NetworkDevice, IsTheLoopbackForThisMachine) {
  EXPECT_EQ(network_device_towards("127.0.0.1", true), "lo");
  EXPECT_EQ(network_device_towards("127.0.0.1", false), "lo");
  EXPECT_EQ(network_device_towards("127.0.1.1", true), "lo") << "Debian's name for the machine itself";
}

TEST(NetworkDevice, AnUnknownHostIsNamed) {
  EXPECT_THAT([] { network_device_towards("no-such-host.invalid", false); },
              ThrowsMessage<error>(HasSubstr("host 'no-such-host.invalid' is not known")));
}

TEST(NetworkDevice, AnAddressThatIsNotOursHasNone) {
  EXPECT_THAT([] { network_device_towards("203.0.113.9", true); },
              ThrowsMessage<error>(HasSubstr("no device of this machine has the address of host '203.0.113.9'")));
}

} // namespace
} // namespace penstock::transport
