// srun's tasks, and what looks like them and is none.
#include "tests/transport/launch/fake_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

using testing::HasSubstr;

// Rank 3 of 5: the second task on the second of three nodes.
const variable_map task{{"SLURM_STEP_ID", "2"},
                        {"SLURM_JOB_ID", "100"},
                        {"SLURM_PROCID", "3"},
                        {"SLURM_NTASKS", "5"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                        {"SLURM_STEP_NODELIST", "gpu[07-09]"},
                        {"SLURM_NODELIST", "other"}};

TEST(SlurmLaunch, ReadsATaskOfSrun) {
  const auto found = read_from(task);
  EXPECT_EQ(found.source, "Slurm");
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 5);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_EQ(found.master, "gpu07");
  EXPECT_EQ(found.port, 15000 + 100 + 2 * 97);
}

TEST(SlurmLaunch, KeepsItsPortsBelowTheSystemsOwn) {
  for (const char* job : {"0", "15999", "16000", "31999", "4294967295"}) {
    const auto port = read_from(task + variable_map{{"SLURM_JOB_ID", job}}).port;
    EXPECT_GE(port, 15000);
    EXPECT_LT(port, 32768);
  }
}

TEST(SlurmLaunch, GivesTwoStepsOfAJobTwoPorts) {
  EXPECT_NE(read_from(task).port, read_from(task + variable_map{{"SLURM_STEP_ID", "3"}}).port);
}

TEST(SlurmLaunch, PrefersTheStepsOwnSize) {
  EXPECT_EQ(read_from(task + variable_map{{"SLURM_NTASKS", "64"}, {"SLURM_STEP_NUM_TASKS", "5"}}).size, 5);
}

TEST(SlurmLaunch, TakesTheAddressAScriptExports) {
  const auto found = read_from(task + variable_map{{"MASTER_ADDR", "ib7"}, {"MASTER_PORT", "4000"}});
  EXPECT_EQ(found.master, "ib7");
  EXPECT_EQ(found.port, 4000);
}

TEST(SlurmLaunch, ABatchScriptIsASingleProcess) {
  auto batch = task;
  batch.erase("SLURM_STEP_ID");
  batch["SLURM_PROCID"] = "0";
  EXPECT_EQ(read_from(batch).source, "single process");
  for (const char* special : {"4294967290", "4294967291", "4294967292"})
    EXPECT_EQ(read_from(task + variable_map{{"SLURM_STEP_ID", special}}).source, "single process") << special;
}

TEST(SlurmLaunch, CountsATaskAsAloneWhereTheStepsShapeIsUnknown) {
  auto variables = task;
  variables.erase("SLURM_STEP_TASKS_PER_NODE");
  const auto found = read_from(variables);
  EXPECT_EQ(found.local_rank, 0);
  EXPECT_EQ(found.local_size, 1);
}

TEST(SlurmLaunch, RefusesWhatContradictsItself) {
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_PROCID", "5"}}), HasSubstr("SLURM_PROCID: found '5'"));
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_LOCALID", "2"}}), HasSubstr("SLURM_LOCALID: found '2'"));
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_NODEID", "3"}}), HasSubstr("entry for node 3"));
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), HasSubstr("TASKS_PER_NODE"));
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_STEP_NODELIST", "gpu[7-"}}), HasSubstr("gpu[7-"));
  EXPECT_THAT(refusal_of(task + variable_map{{"SLURM_STEP_ID", "x"}}), HasSubstr("SLURM_STEP_ID: found 'x'"));
  auto half = task;
  half.erase("SLURM_PROCID");
  EXPECT_THAT(refusal_of(half), HasSubstr("SLURM_PROCID: is not set"));
}

TEST(SlurmLaunch, RefusesRanksThatCannotFindEachOther) {
  auto variables = task;
  variables.erase("SLURM_STEP_NODELIST");
  variables.erase("SLURM_NODELIST");
  EXPECT_THAT(refusal_of(variables), HasSubstr("MASTER_ADDR"));
}

} // namespace
} // namespace penstock::transport
