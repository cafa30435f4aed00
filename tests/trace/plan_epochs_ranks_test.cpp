// Ranks whose plan changed: each rank's file tells it, the merged one has all, and the Perfetto tracks say whose they
// are.
#include "actors/trace/merge.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace penstock::actors {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The files of three ranks: two stages with one twice, then three stages, a rank each.
class changing_ranks {
public:
  changing_ranks() {
    auto whole = make_changing_run(
        {{{.name = "pipedream", .replicas = {2, 1}}, {6}}, {{.name = "pipedream", .replicas = {1, 1, 1}}, {7}}});
    set_ranks(whole.header, {{0, 1}, {2}});
    auto& stages = whole.header.changes[0].plan.stages;
    stages[0].ranks = {2};
    stages[1].ranks = {0};
    stages[2].ranks = {1};
    whole.header.hosts = {"a", "b", "c"};
    whole.header.run = "a job";
    for (int rank = 0; rank < 3; ++rank) {
      auto& part = parts.emplace_back();
      part.header = whole.header;
      part.header.rank = rank;
      files_.push_back(std::make_unique<scratch_file>("rank.pftrace"));
    }
    const epoch_headers headers(whole.header);
    for (const auto& r : whole.records) {
      const auto rank = rank_of(headers.at(epoch_of(whole.header, r)), r.stage, r.replica);
      parts.at(static_cast<std::size_t>(rank)).records.push_back(r);
    }
    count = static_cast<std::int64_t>(whole.records.size());
  }

  std::vector<std::filesystem::path> write() const {
    std::vector<std::filesystem::path> paths;
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      parts[rank].write(paths.emplace_back(files_[rank]->path()));
    return paths;
  }
  std::string bytes(int rank) const { return files_.at(static_cast<std::size_t>(rank))->bytes(); }

  std::vector<synthetic_run> parts;
  std::int64_t count = 0;

private:
  std::vector<std::unique_ptr<scratch_file>> files_;
};

std::string refusal(const std::vector<std::filesystem::path>& files) {
  const scratch_file out("merged.pftrace");
  try {
    merge_traces(files, out.path());
  } catch (const error& refused) {
    return refused.what();
  }
  return "";
}

TEST(PlanEpochsOfRanks, AMergedTraceHasEachRanksPartOfEachPlan) {
  const changing_ranks run;
  const scratch_file out("merged.pftrace");
  EXPECT_EQ(merge_traces(run.write(), out.path()).records, run.count);
  const auto read = read_trace(out.path());
  EXPECT_EQ(read.missing, "");
  EXPECT_EQ(read.header.changes, run.parts[0].header.changes);
  const epoch_headers headers(read.header);
  for (const auto& r : read.records)
    EXPECT_EQ(r.rank, rank_of(headers.at(epoch_of(read.header, r)), r.stage, r.replica));
  const auto found = check_history(read);
  EXPECT_EQ(found.found, history_verdict::outcome::holds) << found.line;
}

TEST(PlanEpochsOfRanks, AClockThatIsWrongIsPutRightByTheMessagesOfAnyPlan) {
  changing_ranks run;
  for (auto& r : run.parts[2].records) {
    r.begin_ns += 7'000'000;
    r.end_ns += 7'000'000;
  }
  const scratch_file out("merged.pftrace");
  const auto merged = merge_traces(run.write(), out.path());
  EXPECT_GT(merged.most_corrected_ns, 6'000'000);
  EXPECT_EQ(merged.header.clock_conflict_ns, 0);
}

TEST(PlanEpochsOfRanks, FilesWhoseChangesDifferAreNotOfOneRun) {
  changing_ranks run;
  run.parts[1].header.changes[0].first_minibatch = 5;
  EXPECT_THAT(refusal(run.write()), HasSubstr("is not of the same run as"));
  changing_ranks lacks;
  lacks.parts[1].header.changes.clear();
  std::erase_if(lacks.parts[1].records, [](const auto& r) { return r.stage == 2; });
  EXPECT_THAT(refusal(lacks.write()), HasSubstr("its changes of plan are others"));
  changing_ranks first_lacks;
  first_lacks.parts[0].header.changes.clear();
  EXPECT_THAT(refusal(first_lacks.write()), HasSubstr("its changes of plan are others"));
}

TEST(PlanEpochsOfRanks, AFileThatBreaksOffBeforeTheChangeIsMerged) {
  for (const int rank : {0, 1}) {
    const changing_ranks run;
    const auto paths = run.write();
    auto header = run.parts.at(static_cast<std::size_t>(rank)).header;
    header.changes.clear();
    trace_recorder(paths.at(static_cast<std::size_t>(rank)), header); // which goes without close()
    const scratch_file out("merged.pftrace");
    merge_traces(paths, out.path());
    const auto read = read_trace(out.path());
    EXPECT_THAT(read.missing, HasSubstr("rank " + std::to_string(rank) + ": the run did not close it"));
    EXPECT_EQ(read.header.changes, run.parts[2].header.changes);
  }
}

TEST(PlanEpochsOfRanks, TracksTellThePlanFromTheSecondOn) {
  const changing_ranks run;
  run.write();
  const auto own = run.bytes(1);
  EXPECT_THAT(own, HasSubstr("stage 0 replica 1 (layer0)"));
  EXPECT_THAT(own, HasSubstr("stage 2 replica 0 (layer2), plan epoch 1"));
  EXPECT_THAT(own, Not(HasSubstr("stage 1 replica 0")));
  EXPECT_THAT(own, Not(HasSubstr("plan epoch 0")));
  const scratch_file out("merged.pftrace");
  merge_traces(run.write(), out.path());
  for (const char* name : {"stage 0 replica 0 (layer0)", "stage 1 replica 0 (layer1)",
                           "stage 0 replica 0 (layer0), plan epoch 1", "stage 2 replica 0 (layer2), plan epoch 1"})
    EXPECT_THAT(out.bytes(), HasSubstr(name));
}

} // namespace
} // namespace penstock::actors
