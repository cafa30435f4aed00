// Lists written out by hand from the rules of DESIGN section 2.
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using lists = std::vector<std::string>;

TEST(Generate, PipedreamFillsThenAlternatesAndForwardsReadTheUpdatesBeforeThem) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {1, 1, 1}, 0, 4))),
            (lists{"F0 F1 F2 B0 U0 F3@1 B1 U1 B2 U2 B3@1 U3", "F0 F1 B0 U0 F2@1 B1 U1 F3@2 B2@1 U2 B3@2 U3",
                   "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3"}));
}

TEST(Generate, PipedreamWithFewerMinibatchesThanCreditsJustDrains) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {1, 1, 1}, 1, 1))),
            (lists{"F0 B0 U0", "F0 B0 U0", "F0 B0 U0"}));
}

TEST(Generate, PipedreamDealsMinibatchesAndGivesEveryReplicaTheTailsUpdate) {
  const auto s = resolve_schedule(request("pipedream", {2, 1}, 1, 5));
  EXPECT_EQ(texts_of(s), (lists{"F0 F2 B0 U0 F4@1 B2 U1 B4@1 U2", "F1 F3 B1 U0 B3 U1 U2",
                                "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3 F4@4 B4@4 U4"}));
  EXPECT_EQ(s.source_credit(), 4);
}

TEST(Generate, PipedreamKeepsStagesOfDifferentWidthInStep) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {1, 2, 1}, 1, 5))),
            (lists{"F0 F1 F2 F3 B0 U0 F4@1 B1 U1 B2 U2 B3 U3 B4@1 U4", "F0 F2 B0 U0 F4@1 B2 U1 B4@1 U2",
                   "F1 F3 B1 U0 B3 U1 U2", "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3 F4@4 B4@4 U4"}));
}

TEST(Generate, PipedreamReplicaWithoutAnyMinibatchOnlyUpdates) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {3}, 1, 4))),
            (lists{"F0 B0 U0 F3@1 B3@1 U1", "F1 B1 U0 U1", "F2 B2 U0 U1"}));
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {3}, 1, 1))), (lists{"F0 B0 U0", "U0", "U0"}));
}

TEST(Generate, VerticalSyncReadsWhatStageZeroReads) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream-vertical-sync", {1, 1, 1}, 1, 5))),
            (lists{"F0 F1 F2 B0 U0 F3@1 B1 U1 F4@2 B2 U2 B3@1 U3 B4@2 U4",
                   "F0 F1 B0 U0 F2 B1 U1 F3@1 B2 U2 F4@2 B3@1 U3 B4@2 U4",
                   "F0 B0 U0 F1 B1 U1 F2 B2 U2 F3@1 B3@1 U3 F4@2 B4@2 U4"}));
}

TEST(Generate, NaiveBackwardReadsTheUpdatesBeforeIt) {
  EXPECT_EQ(
      texts_of(resolve_schedule(request("pipedream-naive", {1, 1}, 1, 4))),
      (lists{"F0 F1 B0 U0 F2@1 B1@1 U1 F3@2 B2@2 U2 B3@3 U3", "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3"}));
}

TEST(Generate, OneForwardOneBackwardFlushesEveryMinibatch) {
  EXPECT_EQ(texts_of(resolve_schedule(request("1f1b", {1, 1}, 3, 2))),
            (lists{"F0.0 F0.1 B0.0 F0.2 B0.1 B0.2 U0 F1.0@1 F1.1@1 B1.0@1 F1.2@1 B1.1@1 B1.2@1 U1",
                   "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 U0 F1.0@1 B1.0@1 F1.1@1 B1.1@1 F1.2@1 B1.2@1 U1"}));
}

TEST(Generate, GpipeRunsAllForwardsThenAllBackwardsAscending) {
  EXPECT_EQ(texts_of(resolve_schedule(request("gpipe", {1, 1}, 3, 1))),
            (lists{"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2 U0", "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2 U0"}));
}

TEST(Generate, GpipeTakesFewerMicrobatchesThanStages) {
  const auto s = resolve_schedule(request("gpipe", {1, 1, 1}, 2, 2));
  for (const auto& list : texts_of(s))
    EXPECT_EQ(list, "F0.0 F0.1 B0.0 B0.1 U0 F1.0@1 F1.1@1 B1.0@1 B1.1@1 U1");
  for (const auto& stage : s.stages)
    EXPECT_EQ(stage.credit, 2);
}

TEST(Generate, SynchronousDealingDoesNotRestartWithTheMinibatch) {
  EXPECT_EQ(texts_of(resolve_schedule(request("1f1b", {2}, 3, 2))),
            (lists{"F0.0 B0.0 F0.2 B0.2 U0 F1.1@1 B1.1@1 U1", "F0.1 B0.1 U0 F1.0@1 B1.0@1 F1.2@1 B1.2@1 U1"}));
}

TEST(Generate, SynchronousReplicaWithoutMicrobatchStillUpdates) {
  EXPECT_EQ(texts_of(resolve_schedule(request("gpipe", {3}, 1, 2))),
            (lists{"F0 B0 U0 U1", "U0 F1@1 B1@1 U1", "U0 U1"}));
}

TEST(Generate, ModelParallelHasOneInFlight) {
  EXPECT_EQ(texts_of(resolve_schedule(request("model-parallel", {1, 1}, 2, 1))),
            (lists{"F0.0 B0.0 F0.1 B0.1 U0", "F0.0 B0.0 F0.1 B0.1 U0"}));
}

TEST(Generate, DataParallelDealsOneMicrobatchToEachReplica) {
  EXPECT_EQ(texts_of(resolve_schedule(request("data-parallel", {2}, 0, 2))),
            (lists{"F0.0 B0.0 U0 F1.0@1 B1.0@1 U1", "F0.1 B0.1 U0 F1.1@1 B1.1@1 U1"}));
}

TEST(Generate, DoubleBufferedWeightsUpdateBetweenTheForwardsTheySeparate) {
  EXPECT_EQ(texts_of(resolve_schedule(request("2bw", {1, 1}, 2, 4))),
            (lists{"F0.0 F0.1 B0.0 F1.0 B0.1 F1.1 U0 B1.0 F2.0@1 B1.1 F2.1@1 U1 B2.0@1 F3.0@2 B2.1@1 F3.1@2 U2 "
                   "B3.0@2 B3.1@2 U3",
                   "F0.0 B0.0 F0.1 B0.1 F1.0 B1.0 F1.1 U0 B1.1 F2.0@1 B2.0@1 F2.1@1 U1 B2.1@1 F3.0@2 B3.0@2 F3.1@2 U2 "
                   "B3.1@2 U3"}));
}

TEST(Generate, DoubleBufferedWeightsWaitForTheLastBackwardWhereTheCreditIsSpent) {
  // K = 3 and M = 2: the last backward of minibatch 0 falls between the last forward of 1 and the first of 2.
  EXPECT_EQ(text_of(resolve_schedule(request("2bw", {1, 1, 1}, 2, 3)), 0, 0),
            "F0.0 F0.1 F1.0 B0.0 F1.1 B0.1 U0 F2.0@1 B1.0 F2.1@1 B1.1 U1 B2.0@1 B2.1@1 U2");
}

TEST(Generate, GivenCreditsReplaceTheDefault) {
  EXPECT_EQ(texts_of(resolve_schedule(request("pipedream", {1, 1}, 1, 3, "1,1"))),
            (lists{"F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2", "F0 B0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2"}));
  EXPECT_EQ(text_of(resolve_schedule(request("1f1b", {1, 1}, 4, 1, "double")), 0, 0),
            "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3 U0");
}

TEST(Generate, NoMinibatchesGiveEmptyLists) {
  for (const auto& name : schedule_names())
    EXPECT_EQ(texts_of(resolve_schedule(request(name, {2}, 1, 0))), (lists{"", ""})) << name;
}

} // namespace
} // namespace penstock::planner::testing
