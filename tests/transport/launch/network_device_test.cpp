// Which devices have which addresses.
#include "kernels/check.hpp"
#include "transport/launch/network_device.hpp"

#include <gmock/gmock.h>

namespace penstock::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(NetworkDevice, IsTheLoopbackWhereNothingLeadsElsewhere) {
  EXPECT_EQ(network_devices_of({}), "lo");
}

TEST(NetworkDevice, EveryDeviceIsFoundByItsAddressAndNamedOnce) {
  const auto all = device_addresses();
  ASSERT_FALSE(all.empty()) << "not even a loopback";
  for (const auto& each : all)
    EXPECT_EQ(network_devices_of({each.address, each.address}), each.device) << each.address;
}

TEST(NetworkDevice, AnAddressThatIsNotOursHasNone) {
  EXPECT_THAT([] { network_devices_of({"203.0.113.9"}); },
              ThrowsMessage<error>(HasSubstr("no device of this machine has the address 203.0.113.9")));
}

TEST(NetworkDevice, OneThatIsNotThereIsNotWaitedFor) {
  const auto begun = std::chrono::steady_clock::now();
  await_running("nosuch0", std::chrono::minutes(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

} // namespace
} // namespace penstock::transport
