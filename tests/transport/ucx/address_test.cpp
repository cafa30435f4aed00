// Addresses survive the trip, and nothing else is taken for one.
#include "kernels/check.hpp"
#include "transport/ucx/address.hpp"

#include <gtest/gtest.h>

namespace penstock::transport {

namespace {

TEST(Address, ComesBackAsItWasPacked) {
  const ucx_address a{"host", std::string("\0\1\2", 3), ""};
  const ucx_address b = unpacked(packed(a), 0);
  EXPECT_EQ(b.host, a.host);
  EXPECT_EQ(b.shared_memory, a.shared_memory);
  EXPECT_EQ(b.network, "");
}

TEST(Address, AnythingElseIsRefusedAndNamesTheRank) {
  const std::string whole = packed({"host", "shared", "network"});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(unpacked(whole.substr(0, size), 0), error) << size;
  for (const std::string& other : {whole + "x", std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\xff')}) {
    try {
      unpacked(other, 7);
      ADD_FAILURE() << other;
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find("rank 7"), std::string::npos) << e.what();
    }
  }
}

TEST(Address, ALengthBeyondTheEndIsRefused) {
  std::string bytes = packed({"host", "", ""});
  const auto first_length = bytes.find("host") - 4;
  bytes.replace(first_length, 4, "\xff\xff\xff\xff");
  EXPECT_THROW(unpacked(bytes, 0), error);
}

TEST(Address, TheHostIsTheSameEachTime) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find("net:["), std::string::npos);
}

} // namespace

} // namespace penstock::transport
