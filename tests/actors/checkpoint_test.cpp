// Checkpoints: resuming is bitwise the run that was never interrupted.
#include "actors/checkpoint/checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

namespace fs = std::filesystem;

run_setup options_in(const fs::path& folder, const std::string& schedule, std::vector<int> replicas) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  if (schedule == "1f1b") o.microbatches = 3;
  o.checkpoint = folder;
  o.checkpoint_every = 4;
  o.epochs = 3; // 18 minibatches, evaluations after 6 and 12
  return o;
}

// More than any run gets done before a wish that is told with its third step is heard: steps are told on a thread of
// their own.
constexpr std::int64_t many_steps = 2000;

class Checkpoint : public ::testing::Test {
protected:
  testing_support::temporary_folder folder_;
  fs::path at(const char* name) const { return folder_.path() / name; }
};

TEST_F(Checkpoint, ResumedRunLeavesTheBitsOfTheUninterruptedOne) {
  for (const auto* schedule : {"pipedream", "pipedream-vertical-sync", "1f1b", "2bw"}) {
    const bool equal = std::string(schedule) == "pipedream-vertical-sync";
    const auto replicas = equal ? std::vector<int>{2, 2} : std::vector<int>{2, 1, 1};
    const auto whole = train_tiny(options_in(at("whole"), schedule, replicas));
    auto first = options_in(at("parts"), schedule, replicas);
    first.steps = 8;
    train_tiny(first);
    auto rest = options_in(at("parts"), schedule, replicas);
    rest.resume = true;
    const auto resumed = train_tiny(rest);
    EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256) << schedule;
    EXPECT_EQ(resumed.summary.state_sha256, whole.summary.state_sha256) << schedule;
    EXPECT_EQ(resumed.seen.steps.size(), 10U) << schedule;
    fs::remove_all(at("whole"));
    fs::remove_all(at("parts"));
  }
}

TEST_F(Checkpoint, SynchronousRunsResumeIntoAnyNumberOfStages) {
  const auto whole = train_tiny(options_in(at("whole"), "1f1b", {1}));
  for (int stages = 1; stages <= 5; ++stages) {
    auto first = options_in(at("parts"), "1f1b", {1, 1, 1});
    first.steps = 8;
    train_tiny(first);
    auto rest = options_in(at("parts"), "1f1b", std::vector<int>(static_cast<std::size_t>(stages), 1));
    rest.resume = true;
    EXPECT_EQ(train_tiny(rest).summary.weights_sha256, whole.summary.weights_sha256) << stages;
    fs::remove_all(at("parts"));
  }
}

TEST_F(Checkpoint, AsynchronousRunsResumeIntoAnotherPlanAsTheOracleDoes) {
  for (const auto& replicas : std::vector<std::vector<int>>{{1}, {1, 1}, {1, 2, 1}}) {
    std::vector<std::string> hashes;
    for (const auto executor : {actors::executor_kind::actors, actors::executor_kind::oracle}) {
      auto first = options_in(at("parts"), "pipedream", {2, 1, 2});
      first.executor = executor;
      first.steps = 8;
      train_tiny(first);
      auto rest = options_in(at("parts"), "pipedream", replicas);
      rest.executor = executor;
      rest.resume = true;
      hashes.push_back(train_tiny(rest).summary.weights_sha256);
      fs::remove_all(at("parts"));
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
}

TEST_F(Checkpoint, StoppedRunDrainsWhatItAdmittedAndCanGoOn) {
  for (const auto* schedule : {"pipedream", "1f1b", "2bw", "gpipe"})
    for (const int window : {0, 3}) {
      auto o = options_in(at("stopped"), schedule, {2, 1});
      o.checkpoint_every = 0;
      o.eval_every = -1;
      o.window = window;
      o.steps = many_steps;
      const auto stopped = train_tiny(o, {.stop_at = 7});
      EXPECT_EQ(stopped.summary.end, actors::run_end::interrupted);
      const auto done = stopped.summary.steps;
      ASSERT_GE(done, 7);
      ASSERT_LT(done, many_steps) << schedule;
      auto judged = options_in(at("judged"), schedule, {2, 1});
      judged.checkpoint_every = 0;
      judged.eval_every = -1;
      judged.executor = actors::executor_kind::oracle;
      judged.steps = done; // a run planned to end there
      const auto oracle = train_tiny(judged);
      EXPECT_EQ(stopped.summary.weights_sha256, oracle.summary.weights_sha256) << schedule << " window " << window;
      EXPECT_EQ(stopped.summary.state_sha256, oracle.summary.state_sha256) << schedule << " window " << window;
      o.resume = judged.resume = true;
      o.steps = judged.steps = done + 11;
      EXPECT_EQ(train_tiny(o).summary.weights_sha256, train_tiny(judged).summary.weights_sha256) << schedule;
      fs::remove_all(at("stopped"));
      fs::remove_all(at("judged"));
    }
}

TEST_F(Checkpoint, AskedForWhileTrainingItIsWrittenAndTheRunGoesOn) {
  auto o = options_in(at("asked"), "pipedream", {1, 1});
  o.checkpoint_every = 0;
  o.eval_every = -1;
  o.steps = many_steps;
  const auto result = train_tiny(o, {.checkpoint_at = 3});
  EXPECT_EQ(result.summary.steps, many_steps);
  ASSERT_EQ(result.seen.checkpoints.size(), 2U);
  EXPECT_GE(result.seen.checkpoints[0], 3);
  EXPECT_EQ(result.seen.checkpoints[1], many_steps);
  EXPECT_EQ(result.summary.drains.front(), result.seen.checkpoints[0]);
}

TEST_F(Checkpoint, KeepsTheTwoNewest) {
  train_tiny(options_in(at("many"), "pipedream", {1, 1}));
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(at("many")))
    names.push_back(e.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("latest", "step-0000000016", "step-0000000018"));
}

} // namespace
} // namespace penstock::testing
