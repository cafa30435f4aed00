// Names and addresses that mean this machine.
#include "transport/launch/host.hpp"

#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

TEST(Host, AllSpellingsOfTheLoopbackAreKnown) {
  for (const char* host :
       {"localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain", "ip6-localhost", "127.0.0.1",
        "127.0.1.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback_name(host)) << host;
  for (const char* host : {"", "node1", "localhost1", "127.com", "127.0.0.1.example", "10.0.0.1", "::2", "fe80::1"})
    EXPECT_FALSE(is_loopback_name(host)) << host;
}

TEST(Host, AnAddressOfFourNumbersIsTheSameOnASocketOfSix) {
  EXPECT_EQ(plain_address("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(plain_address("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(plain_address("::ffff:0:1"), "::ffff:0:1");
  EXPECT_EQ(plain_address("node1"), "node1");
}

TEST(Host, NumbersAreToldFromNames) {
  EXPECT_TRUE(is_numeric_address("10.0.0.1"));
  EXPECT_TRUE(is_numeric_address("fe80::1%eth0"));
  EXPECT_FALSE(is_numeric_address("node1"));
  EXPECT_FALSE(is_numeric_address("10.0.0"));
}

TEST(Host, TheLoopbackIsAlwaysOwnAndADocumentationAddressNever) {
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_TRUE(is_own_address("127.0.1.1"));
  EXPECT_FALSE(is_own_address("203.0.113.9"));
}

} // namespace
} // namespace penstock::transport
