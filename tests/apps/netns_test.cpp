// tools/netns: hosts and links on one machine, and a job over them.
#include "tests/apps/launch_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
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

// A test beside this one makes and removes namespaces of its own: a name without its namespace is one that is under
// way.
TEST_F(Netns, SaysNothingOfWhatOthersAreMaking) {
  const auto other = std::filesystem::path("/run/netns") / ("other" + name_);
  testing_support::write_file(other, "");
  for (const auto& command : {std::vector<std::string>{"bytes"}, {"exec", "0", "true"}, {"down"}, {"up", "2"}}) {
    const auto result = netns(command);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.errors, "") << command.front();
  }
  std::filesystem::remove(other);
}

// As Debian sets up a machine: its own name leads to its loopback, and only the others know where it is.
class DebianHosts : public Netns {
protected:
  void SetUp() override {
    Netns::SetUp();
    if (IsSkipped()) return;
    if (run_process({"unshare", "-m", "-u", "true"}, patience).exit_code != 0)
      GTEST_SKIP() << "no mount and host name namespaces here";
    for (int i = 0; i < 2; ++i)
      testing_support::write_file(folder_ / ("hosts" + std::to_string(i)),
                                  "127.0.0.1 localhost\n127.0.1.1 node" + std::to_string(i) + "\n10.77.0." +
                                      std::to_string(2 - i) + " node" + std::to_string(1 - i) + "\n");
    testing_support::write_file(folder_ / "on", "#!/bin/sh\nhost=$1; shift\nexec " NETNS
                                                " exec $host unshare -m -u sh -c "
                                                "'mount --bind $0 /etc/hosts && hostname $1 && shift && exec \"$@\"' " +
                                                    (folder_ / "hosts").string() + "$host node$host \"$@\"\n");
    testing_support::write_file(folder_ / "ssh", "#!/bin/sh\nhost=${1#node}; shift\nexec " + (folder_ / "on").string() +
                                                     " $host sh -c \"$*\"\n");
    for (const char* script : {"on", "ssh"})
      std::filesystem::permissions(folder_ / script, std::filesystem::perms::owner_all);
  }

  // LeNet's two stages, as rank `host` of two.
  std::vector<std::string> on(int host, const std::vector<std::string>& variables,
                              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{folder_ / "on", std::to_string(host), "env",
                                     "PENSTOCK_SECRET=known to the two ranks"};
    command.insert(command.end(), variables.begin(), variables.end());
    const auto app = tiny_lenet({"--stages", "2", "--steps", "2", "--eval-every", "-1"});
    command.insert(command.end(), app.begin(), app.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  static std::vector<std::string> of_torchrun(int rank) {
    return {"RANK=" + std::to_string(rank), "WORLD_SIZE=2",      "LOCAL_RANK=0",
            "LOCAL_WORLD_SIZE=1",           "MASTER_ADDR=node0", "MASTER_PORT=25001"};
  }

  void expect_a_run(const std::vector<std::string>& first, const std::vector<std::string>& second) const {
    process other(second, how_);
    const auto result = run_process(first, patience, how_);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("tcp over net0"));
    const auto others = other.finish(patience);
    EXPECT_EQ(others.exit_code, 0) << others.errors;
  }

  const temporary_folder folder_;
};

TEST_F(DebianHosts, FindEachOtherByTorchrunsVariables) {
  expect_a_run(on(0, of_torchrun(0)), on(1, of_torchrun(1)));
}

TEST_F(DebianHosts, FindEachOtherBySlurmsVariables) {
  const auto of = [](int rank) -> std::vector<std::string> {
    return {"SLURM_STEP_ID=0",
            "SLURM_JOB_ID=7",
            "SLURM_NTASKS=2",
            "SLURM_PROCID=" + std::to_string(rank),
            "SLURM_NODELIST=node[0-1]",
            "SLURM_NODEID=" + std::to_string(rank),
            "SLURM_TASKS_PER_NODE=1(x2)",
            "SLURM_LOCALID=0"};
  };
  expect_a_run(on(0, of(0)), on(1, of(1)));
}

TEST_F(DebianHosts, FindEachOtherByFlags) {
  const auto of = [](int rank) -> std::vector<std::string> {
    return {"--rank", std::to_string(rank), "--world-size", "2", "--master", "node0:25001"};
  };
  expect_a_run(on(0, {}, of(0)), on(1, {}, of(1)));
}

TEST_F(DebianHosts, FindEachOtherByTheLaunchersHosts) {
  std::vector<std::string> command{folder_ / "on", "0"};
  const auto app = tiny_lenet({"--stages", "2", "--steps", "2", "--eval-every", "-1"});
  const auto launcher = program("penstock", {"launch", "--hosts", "node0,node1", "--ssh", folder_ / "ssh", "--"});
  command.insert(command.end(), launcher.begin(), launcher.end());
  command.insert(command.end(), app.begin(), app.end());
  const auto result = run_process(command, patience, how_);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("tcp over net0"));
}

TEST_F(DebianHosts, SayAtOnceThatNobodyCanReachAHostWithoutADevice) {
  ASSERT_EQ(run_process({"ip", "-n", name_ + "0", "link", "set", "net0", "down"}, patience).exit_code, 0);
  const auto result = run_process(on(0, of_torchrun(0), {"--join-timeout", "86400"}), patience, how_);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error_lines(), ElementsAre(AllOf(HasSubstr("cannot reach rank 0 at node0:25001"),
                                                      HasSubstr("no device of this host but the loopback is up"))));
}

TEST_F(DebianHosts, SayAtOnceThatRankZerosNameLeadsToTheWrongHost) {
  testing_support::write_file(folder_ / "hosts1", "127.0.0.1 localhost\n127.0.1.1 node0\n"); // as its image has it
  const auto result = run_process(on(1, of_torchrun(1), {"--join-timeout", "86400"}), patience, how_);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error_lines(),
              ElementsAre(AllOf(HasSubstr("rank 1 looks for rank 0 at node0, which is 127.0.1.1 here"))));
}

} // namespace
} // namespace penstock::test
