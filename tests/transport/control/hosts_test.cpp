// Ranks on two "hosts": network namespaces joined by a link, which can be cut.
#include "kernels/check.hpp"
#include "tests/support/process.hpp"
#include "tests/transport/control/test_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <unistd.h>

namespace penstock::transport {
namespace {

using penstock::test::process;
using penstock::test::run_process;
using ::testing::HasSubstr;

constexpr const char* near_address = "10.213.77.1";
constexpr const char* far_address = "10.213.77.2";

/// Another network namespace, reached by a pair of virtual interfaces; gone when the test is.
class HostsTest : public ::testing::Test {
protected:
  void SetUp() override {
    if (!(ip({"netns", "add", name}) &&
          ip({"link", "add", name, "type", "veth", "peer", "name", "far", "netns", name}) &&
          ip({"addr", "add", std::string(near_address) + "/30", "dev", name}) && ip({"link", "set", name, "up"}) &&
          ip({"-n", name, "addr", "add", std::string(far_address) + "/30", "dev", "far"}) &&
          ip({"-n", name, "link", "set", "far", "up"})))
      GTEST_SKIP() << "no right to make network namespaces (or no iproute2)";
  }
  void TearDown() override {
    ip({"link", "del", name});
    ip({"netns", "del", name});
  }

  static bool ip(std::vector<std::string> words) {
    words.insert(words.begin(), "ip");
    try {
      return run_process(std::move(words), 10s).exit_code == 0;
    } catch (const std::runtime_error&) {
      return false; // no such program
    }
  }

  const std::string name = "psc" + std::to_string(::getpid() % 1'000'000);
};

TEST_F(HostsTest, ClocksAreComparedAndACutLinkIsNoticedOnBothSides) {
  launch where;
  where.size = 2;
  where.master = near_address;
  where.port = 20'000 + ::getpid() % 10'000;
  join_options options;
  options.secret = secret_from_text(test::job_password);
  options.silence = 1s;
  process far(
      {"ip", "netns", "exec", name, RANK_PROGRAM, "1", "2", near_address, std::to_string(where.port), "60000", "wait"});
  const auto zero = join_job(where, options);
  EXPECT_NE(zero->members()[0].host_identity, zero->members()[1].host_identity);
  ASSERT_TRUE(far.wait_for_output("clock offset", 10s));
  ASSERT_TRUE(ip({"link", "set", name, "down"}));
  const auto cause = test::failure_at(*zero);
  EXPECT_THAT(cause.text, HasSubstr("has said nothing for 1 s"));
  EXPECT_EQ(cause.rank, 1);
  const auto result = far.finish(10s);
  EXPECT_THAT(result.output, HasSubstr("rank 0 (host "));
  EXPECT_THAT(result.output, HasSubstr("has said nothing for 1 s"));
  // Both "hosts" have one kernel, so the true offset is nothing.
  const auto at = result.output.find("clock offset ");
  const auto offset = std::atoll(result.output.c_str() + at + 13);
  EXPECT_NE(offset, 0);
  EXPECT_LT(std::abs(offset), 50'000'000);
}

} // namespace
} // namespace penstock::transport
