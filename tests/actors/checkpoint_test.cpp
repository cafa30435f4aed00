// Checkpoints: resuming is bitwise the run that was never interrupted, and damaged ones are refused.
#include "actors/checkpoint.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

actors::run_options options_in(const fs::path& folder, const std::string& schedule, std::vector<int> replicas) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  if (schedule == "1f1b") o.microbatches = 3;
  o.checkpoint = folder;
  o.checkpoint_every = 4;
  o.epochs = 3; // 18 minibatches, evaluations after 6 and 12
  return o;
}

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
      const auto stopped = train_tiny(o, {.stop_at = 7});
      EXPECT_EQ(stopped.summary.end, actors::run_end::interrupted);
      const auto done = stopped.summary.steps;
      ASSERT_GE(done, 7);
      ASSERT_LT(done, 18) << schedule;
      auto judged = options_in(at("judged"), schedule, {2, 1});
      judged.checkpoint_every = 0;
      judged.eval_every = -1;
      judged.executor = actors::executor_kind::oracle;
      judged.steps = done; // a run planned to end there
      const auto oracle = train_tiny(judged);
      EXPECT_EQ(stopped.summary.weights_sha256, oracle.summary.weights_sha256) << schedule << " window " << window;
      EXPECT_EQ(stopped.summary.state_sha256, oracle.summary.state_sha256) << schedule << " window " << window;
      o.resume = judged.resume = true;
      judged.steps = 0;
      EXPECT_EQ(train_tiny(o).summary.weights_sha256, train_tiny(judged).summary.weights_sha256) << schedule;
      fs::remove_all(at("stopped"));
      fs::remove_all(at("judged"));
    }
}

TEST_F(Checkpoint, AskedForWhileTrainingItIsWrittenAndTheRunGoesOn) {
  auto o = options_in(at("asked"), "pipedream", {1, 1});
  o.checkpoint_every = 0;
  const auto result = train_tiny(o, {.checkpoint_at = 3});
  EXPECT_EQ(result.summary.steps, 18);
  ASSERT_EQ(result.seen.checkpoints.size(), 2U);
  EXPECT_GE(result.seen.checkpoints[0], 3);
  EXPECT_EQ(result.seen.checkpoints[1], 18);
  EXPECT_EQ(result.summary.drains.front(), result.seen.checkpoints[0]);
}

TEST_F(Checkpoint, KeepsTheTwoNewest) {
  train_tiny(options_in(at("many"), "pipedream", {1, 1}));
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(at("many")))
    names.push_back(e.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("latest", "step-0000000016", "step-0000000018"));
}

// -- damage ------------------------------------------------------------------------

class DamagedCheckpoint : public Checkpoint {
protected:
  void SetUp() override {
    auto o = options_in(at("run"), "pipedream", {1, 1});
    o.steps = 4;
    train_tiny(o);
    newest_ = at("run") / "step-0000000004";
  }
  actors::run_options resuming() const {
    auto o = options_in(at("run"), "pipedream", {1, 1});
    o.resume = true;
    return o;
  }
  fs::path newest_;
};

TEST_F(DamagedCheckpoint, TruncatedStageFileIsRefused) {
  const auto file = newest_ / "stage-1.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("another length")));
}

TEST_F(DamagedCheckpoint, ChangedByteIsRefused) {
  std::fstream f(newest_ / "stage-0.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  f.seekp(-3, std::ios::end);
  f.put('x');
  f.close();
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("SHA-256 differs")));
}

TEST_F(DamagedCheckpoint, MissingStageFileIsRefused) {
  fs::remove(newest_ / "stage-1.safetensors");
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("stage-1.safetensors")));
}

TEST_F(DamagedCheckpoint, BrokenManifestIsRefused) {
  for (const auto* text : {"", "{", "[1, 2]", "{\"format\": 1}", "{\"format\": 99}"}) {
    std::ofstream(newest_ / "manifest.json") << text;
    EXPECT_ANY_THROW(train_tiny(resuming())) << text;
  }
}

TEST_F(DamagedCheckpoint, PointerOutOfTheFolderIsRefused) {
  std::ofstream(at("run") / "latest") << "step-../../etc\n";
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("latest")));
}

TEST_F(DamagedCheckpoint, AnotherRunsCheckpointIsRefused) {
  auto o = resuming();
  o.batch = 4;
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("batch 8; this run has 4")));
  o = resuming();
  o.seed = 9;
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("seed")));
  o = resuming();
  o.optimizer.name = "adamw";
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("optimizer sgd; this run has adamw")));
  EXPECT_THAT([&] { train_tiny(resuming(), {.samples = 50}); },
              ThrowsMessage<usage_error>(HasSubstr("training samples")));
}

TEST_F(DamagedCheckpoint, FolderOfAnotherRunIsNotTakenOver) {
  auto o = resuming();
  o.resume = false;
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("another run's checkpoint")));
  o.eval_only = true;
  train_tiny(o);
  EXPECT_TRUE(fs::exists(newest_));
  EXPECT_FALSE(fs::exists(at("run") / "step-0000000000"));
}

TEST_F(DamagedCheckpoint, PointerOrManifestThatIsAFolderIsRefused) {
  fs::remove(newest_ / "manifest.json");
  fs::create_directory(newest_ / "manifest.json");
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("manifest.json")));
  fs::remove(at("run") / "latest");
  fs::create_directory(at("run") / "latest");
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("latest")));
}

TEST_F(DamagedCheckpoint, EmptyFolderHasNothingToResume) {
  auto o = resuming();
  o.checkpoint = at("nothing");
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("no complete checkpoint")));
}

TEST_F(DamagedCheckpoint, LeftoversOfADeadWriterAreIgnoredAndSwept) {
  fs::create_directory(at("run") / ".writing-step-0000000008");
  const auto resumed = train_tiny(resuming());
  EXPECT_EQ(resumed.summary.steps, 18);
  EXPECT_FALSE(fs::exists(at("run") / ".writing-step-0000000008"));
}

} // namespace
} // namespace penstock::testing
