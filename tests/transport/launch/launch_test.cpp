// Every launcher's variables, their order, and what is refused.
#include "tests/transport/launch/fake_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const variable_map ours{{"PENSTOCK_RANK", "2"},
                        {"PENSTOCK_WORLD_SIZE", "4"},
                        {"PENSTOCK_LOCAL_RANK", "0"},
                        {"PENSTOCK_LOCAL_WORLD_SIZE", "2"},
                        {"PENSTOCK_MASTER", "node1:20000"},
                        {"PENSTOCK_RESTARTS", "3"}};
const variable_map torchrun{{"RANK", "1"},
                            {"WORLD_SIZE", "3"},
                            {"LOCAL_RANK", "1"},
                            {"MASTER_ADDR", "ha"},
                            {"MASTER_PORT", "29500"},
                            {"LOCAL_WORLD_SIZE", "3"},
                            {"GROUP_RANK", "0"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"}};
const variable_map slurm{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "4"},        {"SLURM_NTASKS", "5"},
                         {"SLURM_JOB_ID", "7"},  {"SLURM_NODELIST", "n[1-2]"}, {"SLURM_LOCALID", "0"}};
const variable_map open_mpi{{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const variable_map pmi{{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}};
const variable_map master{{"MASTER_ADDR", "hb"}, {"MASTER_PORT", "1234"}};

void expect(const launch& found, const std::string& source, int rank, int size, int local_rank, int local_size,
            const std::string& host, int port, int restarts = 0) {
  EXPECT_EQ(found.source, source);
  EXPECT_EQ(found.rank, rank);
  EXPECT_EQ(found.size, size);
  EXPECT_EQ(found.local_rank, local_rank);
  EXPECT_EQ(found.local_size, local_size);
  EXPECT_EQ(found.master, host);
  EXPECT_EQ(found.port, port);
  EXPECT_EQ(found.restarts, restarts);
}

TEST(ReadLaunch, IsASingleProcessWhereNobodyLaunchedIt) {
  const auto found = read_from({{"HOSTNAME", "x"}});
  expect(found, "single process", 0, 1, 0, 1, "127.0.0.1", 0);
  EXPECT_EQ(found.listening_socket, -1);
}

TEST(ReadLaunch, ReadsEachLaunchersVariables) {
  expect(read_from({}, {1, 2, "h:80"}), "flags", 1, 2, 0, 1, "h", 80);
  expect(read_from(ours), "penstock launch", 2, 4, 0, 2, "node1", 20000, 3);
  expect(read_from(torchrun), "torchrun", 1, 3, 1, 3, "ha", 29500, 2);
  expect(read_from(open_mpi + master), "Open MPI", 5, 6, 1, 2, "hb", 1234);
  expect(read_from(pmi + master), "PMI", 6, 7, 3, 4, "hb", 1234);
}

// What each launcher says, the earlier ones first; all of them say something else.
struct launcher_set {
  const char* name;
  variable_map variables;
  const char* says;
};
const std::vector<launcher_set> launchers{{"penstock launch", ours, "penstock launch's rank 2 of 4"},
                                          {"torchrun", torchrun, "torchrun's rank 1 of 3"},
                                          {"Slurm", slurm, "Slurm's rank 4 of 5"},
                                          {"Open MPI", open_mpi + master, "Open MPI's rank 5 of 6"},
                                          {"PMI", pmi + master, "PMI's rank 6 of 7"}};

TEST(ReadLaunch, TakesTheEarlierOfAnyTwoLaunchersAndNamesTheOther) {
  for (std::size_t i = 0; i < launchers.size(); ++i) {
    const auto& [name, variables, says] = launchers[i];
    const auto by_flags = read_from(variables, {0, 9, "h:80"});
    EXPECT_EQ(by_flags.source, "flags");
    EXPECT_THAT(by_flags.unused, ElementsAre(says));
    EXPECT_THAT(read_from(variables).unused, IsEmpty()) << name;
    for (std::size_t j = i + 1; j < launchers.size(); ++j) {
      if (launchers[i].variables == slurm && std::string(launchers[j].name) == "Open MPI") continue; // its daemons
      const auto found = read_from(launchers[j].variables + variables);
      EXPECT_EQ(found.source, name) << launchers[j].name;
      EXPECT_THAT(found.unused, ElementsAre(launchers[j].says)) << name;
    }
  }
}

TEST(ReadLaunch, NamesNobodyWhoSaysTheSameOrNothingThatIsRight) {
  EXPECT_THAT(read_from(torchrun + variable_map{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).unused, IsEmpty());
  EXPECT_THAT(read_from(torchrun + variable_map{{"PMI_RANK", "9"}, {"PMI_SIZE", "3"}}).unused, IsEmpty());
  EXPECT_THAT(read_from(torchrun + variable_map{{"SLURM_STEP_ID", "0"}}).unused, IsEmpty());
}

TEST(ReadLaunch, WorksInAnInteractiveShellOfSrun) {
  const variable_map shell{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "7"}};
  for (const auto& by_hand : {ours, torchrun})
    EXPECT_THAT(read_from(shell + by_hand).unused, ElementsAre("Slurm's rank 0 of 1"));
  const auto flagged = read_from(shell + master, {1, 2, ""});
  expect(flagged, "flags", 1, 2, 0, 1, "hb", 1234);
  EXPECT_THAT(flagged.unused, ElementsAre("Slurm's rank 0 of 1"));
}

TEST(ReadLaunch, FlagsAreCompletedByWhoeverAgreesWithThem) {
  expect(read_from(ours, {2, 4, ""}), "penstock launch", 2, 4, 0, 2, "node1", 20000, 3);
  expect(read_from(torchrun, {1, 3, ""}), "torchrun", 1, 3, 1, 3, "ha", 29500, 2);
  expect(read_from(master + variable_map{{"WORLD_SIZE", "2"}}, {0, 2, ""}), "flags", 0, 2, 0, 1, "hb", 1234);
}

TEST(ReadLaunch, RefusesFlagsThatContradictWhatWouldCompleteThem) {
  for (const auto& [name, variables, says] : launchers) {
    const auto text = refusal_of(variables, {0, 2, ""});
    EXPECT_THAT(text,
                AllOf(HasSubstr("--rank"), HasSubstr("found rank 0 of 2"), HasSubstr(name), HasSubstr("--master")));
    EXPECT_THAT(text, HasSubstr(std::string(says).substr(std::string(name).size() + 3))); // "rank 2 of 4"
    expect(read_from(variables, {0, 1, ""}), "flags", 0, 1, 0, 1, "127.0.0.1", 0);        // one rank needs no address
  }
}

TEST(ReadLaunch, DoesNotTakeTheDaemonsOfMpirunForRanks) {
  EXPECT_EQ(read_from(slurm + open_mpi + master).source, "Open MPI");
  EXPECT_EQ(read_from(slurm + variable_map{{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "5"}}).source,
            "Slurm");
}

TEST(ReadLaunch, TakesTheAddressFromTheFlagWhoeverSaysTheRank) {
  for (const auto& variables : {ours, torchrun, slurm, open_mpi, pmi}) {
    const auto found = read_from(variables, {{}, {}, "[fe80::1]:77"});
    EXPECT_EQ(found.master, "fe80::1") << found.source;
    EXPECT_EQ(found.port, 77) << found.source;
    EXPECT_NE(found.source, "flags");
  }
}

TEST(ReadLaunch, FlagsTakeTheAddressFromTheEnvironment) {
  expect(read_from(master, {0, 2, ""}), "flags", 0, 2, 0, 1, "hb", 1234);
}

TEST(ReadLaunch, LeavesThePortToTorchsAgentWhereItServesItsStoreThere) {
  EXPECT_EQ(read_from(torchrun + variable_map{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}).port, 29501);
  EXPECT_EQ(read_from(torchrun + variable_map{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).port, 29500);
  EXPECT_EQ(read_from(torchrun + variable_map{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}).port,
            65534);
}

TEST(ReadLaunch, KnowsWhetherOtherHostsAreExpected) {
  EXPECT_TRUE(expects_other_hosts(read_from(ours)));
  EXPECT_FALSE(expects_other_hosts(read_from(torchrun))) << "all ranks are local ones";
  EXPECT_TRUE(expects_other_hosts(read_from(torchrun + variable_map{{"LOCAL_WORLD_SIZE", "2"}})));
  EXPECT_TRUE(expects_other_hosts(read_from(open_mpi + master)));
  EXPECT_TRUE(expects_other_hosts(read_from(slurm)));
  EXPECT_FALSE(expects_other_hosts(read_from(slurm + variable_map{{"SLURM_NODELIST", "n1"}})));
  EXPECT_TRUE(expects_other_hosts(read_from({}, {1, 2, "node1:80"}))) << "nobody says so: any name may be reached";
  for (const auto* own : {"localhost:80", "127.0.1.1:80", "[::1]:80"})
    EXPECT_FALSE(expects_other_hosts(read_from({}, {1, 2, own}))) << own;
}

TEST(ReadLaunch, MpiOnOneHostNeedsNoAddress) {
  const variable_map near_only = open_mpi + variable_map{{"OMPI_COMM_WORLD_LOCAL_SIZE", "6"},
                                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "5"},
                                                         {"PMIX_NAMESPACE", "prterun-host-4242@1"}};
  const auto found = read_from(near_only);
  EXPECT_EQ(found.master, "127.0.0.1");
  EXPECT_FALSE(expects_other_hosts(found));
  EXPECT_GE(found.port, 15000);
  EXPECT_LT(found.port, 31000);
  EXPECT_EQ(read_from(near_only + variable_map{{"OMPI_COMM_WORLD_RANK", "5"}}).port, found.port) << "of every rank";
  EXPECT_NE(read_from(near_only + variable_map{{"PMIX_NAMESPACE", "prterun-host-4243@1"}}).port, found.port);
  EXPECT_EQ(read_from(near_only + master).port, 1234) << "an address that is given";
  EXPECT_THAT(refusal_of(open_mpi + variable_map{{"PMIX_NAMESPACE", "7"}}), HasSubstr("--master")) << "several hosts";
  EXPECT_THAT(refusal_of(near_only + variable_map{{"PMIX_NAMESPACE", ""}}), HasSubstr("--master")) << "no name";
}

TEST(ReadLaunch, InheritsTheSocketOnRankZero) {
  const variable_map socket{{"PENSTOCK_RANK", "0"}, {"PENSTOCK_LOCAL_RANK", "0"}, {"PENSTOCK_LISTEN_FD", "5"}};
  EXPECT_EQ(read_from(ours + socket).listening_socket, 5);
  EXPECT_THAT(refusal_of(ours + variable_map{{"PENSTOCK_LISTEN_FD", "5"}}),
              AllOf(HasSubstr("PENSTOCK_LISTEN_FD"), HasSubstr("rank 2")));
  EXPECT_THAT(refusal_of(ours + socket + variable_map{{"PENSTOCK_LISTEN_FD", "1"}}), HasSubstr("PENSTOCK_LISTEN_FD"));
}

TEST(ReadLaunch, CountsAProcessWithoutALocalSizeAsAloneOnItsHost) {
  auto variables = torchrun;
  variables.erase("LOCAL_WORLD_SIZE");
  expect(read_from(variables), "torchrun", 1, 3, 0, 1, "ha", 29500, 2);
}

TEST(ReadLaunch, NeedsNoAddressForOneRank) {
  expect(read_from({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "torchrun", 0, 1, 0, 1, "127.0.0.1", 0);
  expect(read_from({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), "Open MPI", 0, 1, 0, 1, "127.0.0.1",
         0);
}

struct refused {
  const char* about;
  variable_map variables;
  std::vector<std::string> says;
  launch_flags flags;
};

class RefusedLaunch : public testing::TestWithParam<refused> {};

TEST_P(RefusedLaunch, SaysInOneLineWhatAndWhy) {
  const auto text = refusal_of(GetParam().variables, GetParam().flags);
  EXPECT_NE(text, "accepted");
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  for (const auto& part : GetParam().says)
    EXPECT_THAT(text, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Variables, RefusedLaunch,
    testing::Values(
        refused{"RankNotBelowSize", torchrun + variable_map{{"RANK", "3"}}, {"RANK", "'3'", "WORLD_SIZE", "3"}},
        refused{"OurRankNotBelowSize", ours + variable_map{{"PENSTOCK_RANK", "4"}}, {"PENSTOCK_RANK", "'4'"}},
        refused{"HalfASet", {{"RANK", "1"}}, {"WORLD_SIZE", "not set", "RANK"}},
        refused{"OtherHalf", {{"WORLD_SIZE", "2"}}, {"RANK: is not set", "WORLD_SIZE is set"}},
        refused{"HalfOfOurs", {{"PENSTOCK_RANK", "0"}}, {"PENSTOCK_WORLD_SIZE"}},
        refused{"HalfOfOpenMpi", {{"OMPI_COMM_WORLD_SIZE", "2"}}, {"OMPI_COMM_WORLD_RANK"}},
        refused{"HalfOfPmi", {{"PMI_RANK", "2"}}, {"PMI_SIZE"}},
        refused{"LocalNotBelowLocalSize", torchrun + variable_map{{"LOCAL_RANK", "3"}}, {"LOCAL_RANK", "'3'"}},
        refused{"MoreLocalThanRanks", torchrun + variable_map{{"LOCAL_WORLD_SIZE", "4"}}, {"LOCAL_WORLD_SIZE", "'4'"}},
        refused{"LocalAboveRank", torchrun + variable_map{{"LOCAL_RANK", "2"}}, {"LOCAL_RANK", "'2'", "which is 1"}},
        refused{"NegativeRank", torchrun + variable_map{{"RANK", "-1"}}, {"RANK", "'-1'"}},
        refused{"NoNumber", torchrun + variable_map{{"RANK", "1x"}}, {"RANK", "'1x'", "whole number"}},
        refused{"Blank", torchrun + variable_map{{"RANK", " 1"}}, {"RANK", "' 1'"}},
        refused{"Empty", torchrun + variable_map{{"WORLD_SIZE", ""}}, {"WORLD_SIZE", "''"}},
        refused{"SizeZero", torchrun + variable_map{{"WORLD_SIZE", "0"}}, {"WORLD_SIZE", "'0'"}},
        refused{"Huge", torchrun + variable_map{{"WORLD_SIZE", "99999999999999999999"}}, {"WORLD_SIZE"}},
        refused{"TooMany", torchrun + variable_map{{"WORLD_SIZE", "2000000000"}}, {"WORLD_SIZE", "65536"}},
        refused{"ManyLines", torchrun + variable_map{{"RANK", "1\nroot: x\x1b[2J"}}, {"RANK", "'1?root: x?[2J'"}},
        refused{"PortZero", torchrun + variable_map{{"MASTER_PORT", "0"}}, {"MASTER_PORT", "65535"}},
        refused{"PortTooLarge", torchrun + variable_map{{"MASTER_PORT", "65536"}}, {"MASTER_PORT", "65535"}},
        refused{"EmptyHost", torchrun + variable_map{{"MASTER_ADDR", ""}}, {"MASTER_ADDR", "host"}},
        refused{"HostWithBlank", torchrun + variable_map{{"MASTER_ADDR", "a b"}}, {"MASTER_ADDR", "'a b'"}},
        refused{"HalfAnAddress", open_mpi + variable_map{{"MASTER_ADDR", "h"}}, {"MASTER_PORT", "not set"}},
        refused{"NoAddress", open_mpi, {"MASTER_ADDR", "--master", "6 ranks"}},
        refused{"NoAddressForPmi", pmi, {"MASTER_ADDR", "--master"}},
        refused{"NoMaster", {{"PENSTOCK_RANK", "0"}, {"PENSTOCK_WORLD_SIZE", "2"}}, {"PENSTOCK_MASTER"}},
        refused{"MasterWithoutPort", ours + variable_map{{"PENSTOCK_MASTER", "h"}}, {"PENSTOCK_MASTER", "HOST:PORT"}},
        refused{"MasterWithColons", ours + variable_map{{"PENSTOCK_MASTER", "fe80::1:5"}}, {"[ADDRESS]:PORT"}},
        refused{"Restarts", ours + variable_map{{"PENSTOCK_RESTARTS", "many"}}, {"PENSTOCK_RESTARTS", "'many'"}},
        refused{"HalfFlags", {}, {"--world-size", "--rank"}, {1, {}, ""}},
        refused{"OtherHalfFlags", {}, {"--rank", "--world-size"}, {{}, 2, ""}},
        refused{"LoopbackForSeveralHosts",
                torchrun + variable_map{{"MASTER_ADDR", "localhost"}, {"LOCAL_WORLD_SIZE", "2"}},
                {"MASTER_ADDR", "'localhost'", "other hosts", "several hosts"}},
        refused{"LoopbackFlagForSeveralHosts", ours, {"--master", "'127.0.1.1'"}, {{}, {}, "127.0.1.1:80"}},
        refused{
            "OurLoopbackForSeveralHosts", ours + variable_map{{"PENSTOCK_MASTER", "[::1]:80"}}, {"PENSTOCK_MASTER"}},
        refused{"LoopbackForSeveralNodes",
                slurm + variable_map{{"SLURM_STEP_NODELIST", "n[1-2]"}},
                {"--master", "'localhost'", "Slurm"},
                {{}, {}, "localhost:80"}},
        refused{"FlagsNotBelow", {}, {"--rank", "'2'", "--world-size"}, {2, 2, "h:1"}},
        refused{"FlagsNegative", {}, {"--rank", "'-1'"}, {-1, 2, "h:1"}},
        refused{"FlagsNoAddress", {}, {"--master"}, {1, 2, ""}},
        refused{"FlagsBadAddress", {}, {"--master", "'h'"}, {1, 2, "h"}}),
    [](const auto& each) { return each.param.about; });

TEST(ProcessEnvironment, TellsUnsetFromEmpty) {
  ::setenv("PENSTOCK_TEST_EMPTY", "", 1);
  EXPECT_EQ(process_environment()("PENSTOCK_TEST_EMPTY"), "");
  EXPECT_EQ(process_environment()("PENSTOCK_TEST_UNSET"), std::nullopt);
}

} // namespace
} // namespace penstock::transport
