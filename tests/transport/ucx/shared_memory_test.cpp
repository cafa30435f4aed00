// What is said where shared memory is scarce.
#include "transport/ucx/shared_memory.hpp"

#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

TEST(SharedMemory, ScarcityIsToldWithWhatIsThereAndWhatIsNeeded) {
  EXPECT_EQ(shared_memory_trouble(16, "no", std::uint64_t{64} << 20, std::uint64_t{3} << 20),
            "/dev/shm has 64 MB, of which 3 MB were left; this host's 16 ranks need 66 MB (docker run --shm-size, or a "
            "larger tmpfs there)");
}

TEST(SharedMemory, WhereThereIsEnoughTheReasonIsAnother) {
  EXPECT_EQ(shared_memory_trouble(2, "no such device", std::uint64_t{64} << 20, std::uint64_t{64} << 20),
            "no such device");
}

} // namespace
} // namespace penstock::transport
