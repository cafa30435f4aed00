// The null twin says what it is.
#include "kernels/check.hpp"
#include "transport/nccl/nccl.hpp"

#include <gmock/gmock.h>

namespace penstock::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Nccl, IsUnavailableInOneLineWhereItIsAbsent) {
  if (nccl_available()) GTEST_SKIP() << "this build has NCCL";
  EXPECT_THAT([] { connect_nccl(0, 2, ""); }, ThrowsMessage<error>(HasSubstr("NCCL is unavailable")));
}

} // namespace
} // namespace penstock::transport
