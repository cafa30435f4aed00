// Checkpoints that are damaged, of another run, or not what they say are refused in one line.
#include "actors/checkpoint/checkpoint.hpp"
#include "actors/checkpoint/checkpoint_manifest.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sys/stat.h>

namespace penstock::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::read_file;

run_setup options_in(const fs::path& folder) {
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.checkpoint = folder;
  o.checkpoint_every = 4;
  o.epochs = 3;
  return o;
}

class DamagedCheckpoint : public ::testing::Test {
protected:
  void SetUp() override {
    auto o = options_in(at("run"));
    o.steps = 4;
    train_tiny(o);
    newest_ = at("run") / "step-0000000004";
  }
  run_setup resuming() const {
    auto o = options_in(at("run"));
    o.resume = true;
    return o;
  }
  fs::path at(const char* name) const { return folder_.path() / name; }
  /// Of the tiny network; the rest is what tiny_options() and the data say.
  actors::saved_run read(memory_pool& pool) const {
    const auto o = options_in(at("run"));
    return actors::read_checkpoint(
        {.model = model_, .optimizer = o.optimizer.name, .batch = o.batch, .samples = 44, .seed = o.seed},
        *tiny_residual_network(), at("run"), pool);
  }

  testing_support::temporary_folder folder_;
  fs::path newest_;
  std::string model_ = tiny_residual_network()->name();
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

// One line, whatever the bytes are; and what is read all the same is what was written.
TEST_F(DamagedCheckpoint, ChangedBytesAreRefusedOrChangeNothing) {
  std::mt19937_64 random(3);
  memory_pool pool;
  const auto whole = read(pool);
  for (const auto& file : {at("run") / "latest", newest_ / "manifest.json", newest_ / "stage-0.safetensors",
                           newest_ / "stage-1.safetensors"}) {
    const auto good = read_file(file);
    for (int i = 0; i < 150; ++i) {
      auto bytes = good;
      for (auto edits = random() % 3 + 1; edits > 0; --edits) {
        const auto place = random() % (i % 2 == 0 ? std::min<std::size_t>(bytes.size(), 300) : bytes.size());
        if (random() % 3 == 0)
          bytes.erase(place, random() % 30 + 1);
        else
          bytes[place] = static_cast<char>(random());
        if (bytes.empty()) bytes = "x";
      }
      testing_support::write_file(file, bytes);
      try {
        const auto again = read(pool);
        EXPECT_EQ(again.at.step, whole.at.step);
        EXPECT_EQ(again.at.drains, whole.at.drains);
        EXPECT_EQ(again.stages.size(), whole.stages.size());
        EXPECT_TRUE(file.extension() != ".safetensors" || bytes == good);
      } catch (const error& e) {
        EXPECT_THAT(e.what(), AllOf(HasSubstr("[checkpoint]"), ::testing::Not(HasSubstr("\n"))));
      }
    }
    testing_support::write_file(file, good);
  }
  EXPECT_EQ(read(pool).at.step, 4);
}

TEST_F(DamagedCheckpoint, PipesInTheirPlaceAreRefusedWithoutWaiting) {
  for (const auto& file : {newest_ / "stage-1.safetensors", newest_ / "manifest.json", at("run") / "latest"}) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), S_IRUSR | S_IWUSR), 0);
    EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr(file.filename().string())));
  }
}

TEST_F(DamagedCheckpoint, HugeSparseFilesInTheirPlaceAreRefusedUnread) {
  for (const auto& file : {newest_ / "stage-1.safetensors", newest_ / "manifest.json", at("run") / "latest"}) {
    fs::resize_file(file, std::uintmax_t{7} << 30);
    EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr(file.filename().string())));
  }
}

TEST_F(DamagedCheckpoint, PointerToAnOlderOneIsRefusedUnlessAPersonWroteIt) {
  auto o = resuming();
  o.steps = 8;
  train_tiny(o);
  auto text = read_file(at("run") / "latest");
  ASSERT_TRUE(text.starts_with("step-0000000008 "));
  text[14] = '4';
  testing_support::write_file(at("run") / "latest", text);
  EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr("another SHA-256")));
  testing_support::write_file(at("run") / "latest", "step-0000000004\n");
  memory_pool pool;
  EXPECT_EQ(read(pool).at.step, 4);
}

TEST_F(DamagedCheckpoint, StagesThatShareOrLackLayersAreRefusedThoughTheDigestFits) {
  const auto file = newest_ / "manifest.json";
  testing_support::write_file(at("run") / "latest", "step-0000000004\n");
  const auto good = actors::manifest_from_text(read_file(file), file.string(), 4);
  ASSERT_EQ(good.stages.size(), 2U);
  const auto refuses = [&](const std::string& why, auto change) {
    auto m = good;
    change(m.stages);
    testing_support::write_file(file, to_text(m));
    EXPECT_THAT([&] { train_tiny(resuming()); }, ThrowsMessage<error>(HasSubstr(why)));
  };
  refuses("stage 1 has a layer that is another's", [](auto& stages) {
    std::swap(stages[0].first_layer, stages[1].first_layer);
    stages[0].layers = 1;
    stages[1].layers = std::ssize(tiny_residual_network()->layers());
  });
  refuses("stage 1 begins at", [](auto& stages) { ++stages[0].layers; });
  refuses("its stages have", [](auto& stages) { --stages[0].layers; });
  refuses("are left of the model", [](auto& stages) { ++stages[1].layers; });
}

TEST_F(DamagedCheckpoint, OneThatIsWrittenAgainIsReadable) {
  memory_pool pool;
  const auto saved = read(pool);
  actors::write_checkpoint(saved.stages, saved.at, at("run"));
  EXPECT_EQ(read(pool).at.step, 4);
}

TEST_F(DamagedCheckpoint, WhatIsGivenUpByGoingBackIsRemovedAndTheOneBeforeKept) {
  fs::create_directory(at("run") / "step-0000000099");
  fs::create_directory(at("run") / "step-notes");
  auto o = resuming();
  o.steps = 8;
  train_tiny(o);
  EXPECT_FALSE(fs::exists(at("run") / "step-0000000099"));
  EXPECT_TRUE(fs::exists(at("run") / "step-0000000004"));
  EXPECT_TRUE(fs::exists(at("run") / "step-notes"));
}

} // namespace
} // namespace penstock::testing
