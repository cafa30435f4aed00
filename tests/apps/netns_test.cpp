// tools/netns: hosts and links on one machine, and a job over them.
#include "tests/apps/launch_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// Hosts under a name of this process's own, gone with the test.
class Netns : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    const auto made = netns({"up", "2", "100mbit"});
    if (made.exit_code != 0) GTEST_SKIP() << "no network namespaces here: " << made.errors;
  }
  void TearDown() override {
    if (::geteuid() == 0) netns({"down"});
  }
  process_result netns(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), NETNS);
    return run_process(arguments, patience, how_);
  }

  const std::string name_ = "pst" + std::to_string(::getpid()) + "x";
  const process_options how_{.variables = {{"PENSTOCK_NETNS", name_}}};
};

TEST_F(Netns, RunsAJobOverItsHosts) {
  const auto result =
      launched({"--hosts", "10.77.0.1,10.77.0.2", "--ssh", NETNS " ssh"},
               "echo $PENSTOCK_MASTER | cut -d: -f1; ip -4 -br address show dev net0 | awk '{print $3}'", how_);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(lines_of(result.output),
              UnorderedElementsAre("10.77.0.1", "10.77.0.1/24", "[1] 10.77.0.1", "[1] 10.77.0.2/24"));
}

TEST_F(Netns, CutsAndJoinsAHost) {
  // A neighbour that answers to its address.
  const std::vector<std::string> ask{"exec", "0", "python3", "-c",
                                     "import socket\n"
                                     "try: socket.create_connection(('10.77.0.2', 9), 1)\n"
                                     "except ConnectionRefusedError: print('there')\n"
                                     "except OSError: print('gone')"};
  EXPECT_EQ(netns(ask).output, "there\n");
  EXPECT_EQ(netns({"cut", "1"}).exit_code, 0);
  EXPECT_EQ(netns(ask).output, "gone\n");
  EXPECT_EQ(netns({"join", "1"}).exit_code, 0);
  EXPECT_EQ(netns(ask).output, "there\n");
  EXPECT_THAT(netns({"bytes"}).output, Not(HasSubstr("0 0\n")));
}

TEST_F(Netns, IsMadeAndRemovedAsOftenAsOneLikes) {
  EXPECT_EQ(netns({"up", "3"}).exit_code, 0);
  EXPECT_EQ(lines_of(netns({"bytes"}).output).size(), 3U);
  EXPECT_EQ(netns({"down"}).exit_code, 0);
  EXPECT_EQ(netns({"down"}).exit_code, 0);
  EXPECT_THAT(run_process({"ip", "netns", "list"}, patience).output, Not(HasSubstr(name_)));
}

TEST_F(Netns, LeavesNothingOfWhatItCannotMake) {
  const auto result = netns({"up", "2", "1parsec"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("1parsec"));
  EXPECT_THAT(run_process({"ip", "netns", "list"}, patience).output, Not(HasSubstr(name_)));
}

} // namespace
} // namespace penstock::test
