// Limits of address space, set on this process itself.
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"
#include "kernels/memory_pool.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <sys/resource.h>
#include <system_error>

namespace penstock {
namespace {

// This process's own limit, set to what is taken and so much more.
class address_space_limit {
public:
  explicit address_space_limit(std::size_t more) {
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit huge = before_;
    huge.rlim_cur = std::min<rlim_t>(before_.rlim_max, rlim_t{1} << 50);
    ::setrlimit(RLIMIT_AS, &huge);
    rlimit limit = before_;
    limit.rlim_cur = huge.rlim_cur - address_space_left().value_or(0) + more;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~address_space_limit() { ::setrlimit(RLIMIT_AS, &before_); }
  address_space_limit(const address_space_limit&) = delete;
  address_space_limit& operator=(const address_space_limit&) = delete;

private:
  rlimit before_{};
};

constexpr std::size_t megabyte = std::size_t{1} << 20;

TEST(LittleMemory, WithoutALimitNothingIsAsked) {
  rlimit now{};
  ::getrlimit(RLIMIT_AS, &now);
  if (now.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "this shell has a limit of address space (ulimit -v)";
  EXPECT_EQ(address_space_left(), std::nullopt);
  EXPECT_TRUE(address_space_holds(std::size_t{1} << 60));
  EXPECT_NO_THROW(require_address_space(std::size_t{1} << 60, "anything"));
  EXPECT_NO_THROW(require_threads(1 << 20, "anybody"));
}

TEST(LittleMemory, UnderALimitWhatIsLargeIsRefusedWhileSomethingIsLeft) {
  const address_space_limit limit(200 * megabyte);
  ASSERT_TRUE(address_space_left());
  EXPECT_LE(*address_space_left(), 200 * megabyte);
  EXPECT_NO_THROW(require_address_space(100 * megabyte, "a picture"));
  EXPECT_THAT(
      [] { require_address_space(190 * megabyte, "a picture"); },
      testing::ThrowsMessage<error>(testing::AllOf(testing::HasSubstr("out of memory"), testing::HasSubstr("a picture"),
                                                   testing::HasSubstr("ulimit -v"))));
  EXPECT_THROW(require_threads(1000, "a crowd"), error);
}

TEST(LittleMemory, APoolKeepsTheLastOfTheAddressSpaceForOthersAndGivesBackWhatNobodyUses) {
  memory_pool pool;
  const address_space_limit limit(200 * megabyte);
  EXPECT_THROW(pool.allocate(180 * megabyte, memory_use::scratch), error);
  pool.allocate(100 * megabyte, memory_use::scratch); // free again at once
  EXPECT_NO_THROW(pool.allocate(130 * megabyte, memory_use::scratch));
}

TEST(LittleMemory, ControlGroupsOfBothVersionsLimitWhatThereIs) {
  const testing_support::temporary_folder root;
  const auto put = [&](const std::string& file, const std::string& text) {
    testing_support::write_file(root.path() / file, text + "\n");
  };
  const auto all = memory_there_is(root.path()); // no groups there
  EXPECT_GT(all, 0);
  put("proc/self/cgroup", "0::/job/mine\n4:memory:/old");
  put("sys/fs/cgroup/job/mine/memory.max", "max");
  put("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "9223372036854771712"); // as version 1 says "none"
  EXPECT_EQ(memory_there_is(root.path()), all);
  put("sys/fs/cgroup/job/memory.max", "200000000");
  const auto swap = memory_there_is(root.path()) - 200e6;
  EXPECT_GE(swap, 0);
  put("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "100000000");
  EXPECT_EQ(memory_there_is(root.path()), 100e6 + swap);
}

TEST(LittleMemory, APoolPromisesNoMoreThanThereIs) {
  memory_pool pool;
  const auto held = pool.allocate(megabyte, memory_use::scratch);
  const auto bytes = static_cast<std::size_t>(memory_there_is());
  EXPECT_THAT([&] { pool.allocate(bytes, memory_use::scratch); },
              testing::ThrowsMessage<error>(
                  testing::AllOf(testing::HasSubstr("out of memory: no room for " + std::to_string(bytes)),
                                 testing::HasSubstr("the machine, or its control group, has"))));
}

TEST(LittleMemory, FaultsOfTheLibrariesSayThatItWasMemory) {
  EXPECT_EQ(described(std::bad_alloc()), "out of memory");
  EXPECT_THAT(described(std::bad_array_new_length()), testing::StartsWith("out of memory"));
  const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_THAT(described(no_thread),
              testing::AllOf(testing::HasSubstr("cannot start a thread"), testing::HasSubstr("out of memory")));
  EXPECT_EQ(described(error("a disk is full")), "a disk is full");
}

} // namespace
} // namespace penstock
