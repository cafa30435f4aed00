// Optimizers and clipping as published, in pipelines: actors, ranks and a resumed run leave the oracle's bits.
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

run_setup options_of(const std::string& schedule, std::vector<int> replicas) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  if (!schedule.starts_with("pipedream") && schedule != "2bw") o.microbatches = 4;
  return o;
}

// The actors' run, after it was held against the oracle's.
training_result same_as_oracle(run_setup o) {
  SCOPED_TRACE(o.schedule + " " + o.optimizer.name);
  const auto saved = o.save_weights;
  auto with_actors = train_tiny(o);
  o.executor = executor_kind::oracle;
  if (!saved.empty()) o.save_weights += ".oracle";
  const auto oracle = train_tiny(o);
  EXPECT_EQ(with_actors.summary.weights_sha256, oracle.summary.weights_sha256);
  EXPECT_EQ(with_actors.summary.state_sha256, oracle.summary.state_sha256);
  EXPECT_EQ(with_actors.seen.evaluations.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(with_actors.seen.evaluations.at(i).found.loss, oracle.seen.evaluations.at(i).found.loss);
  return with_actors;
}

named_tensors contents(const std::filesystem::path& file) {
  memory_pool pool;
  return read_safetensors(file.string(), pool).tensors;
}

bool same_bits(const tensor& a, const tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

const std::vector<std::vector<int>> pipelines{{1}, {1, 1, 1}, {1, 2, 1}, {2, 1}};

TEST(StageClipping, AgreesWithTheOracleInEverySchedule) {
  for (const auto* schedule : {"pipedream", "pipedream-naive", "2bw", "1f1b", "gpipe", "zb-h1", "zb-h2"})
    for (const auto& replicas : pipelines) {
      auto o = options_of(schedule, replicas);
      o.clip_stage_norm = 0.05;
      const auto clipped = same_as_oracle(o).summary.weights_sha256;
      o.clip_stage_norm = 0;
      EXPECT_NE(train_tiny(o).summary.weights_sha256, clipped) << schedule;
    }
}

TEST(StageClipping, OfOneStageIsClippingByTheGlobalNorm) {
  auto o = options_of("1f1b", {1});
  o.clip_norm = 0.05;
  const auto global = train_tiny(o).summary.weights_sha256;
  std::swap(o.clip_norm, o.clip_stage_norm);
  EXPECT_EQ(train_tiny(o).summary.weights_sha256, global);
  o.clip_stage_norm = 1e9; // what is below stays as it is
  const auto high = train_tiny(o).summary.weights_sha256;
  o.clip_stage_norm = 0;
  EXPECT_EQ(train_tiny(o).summary.weights_sha256, high);
}

TEST(StageClipping, IsTheSameWithReplicasOnSeveralRanks) {
  for (const auto* schedule : {"pipedream", "1f1b"}) {
    auto o = options_of(schedule, {2, 1});
    o.clip_stage_norm = 0.05;
    EXPECT_EQ(train_tiny_ranks(o, 3).summary.weights_sha256, train_tiny(o).summary.weights_sha256) << schedule;
  }
}

TEST(StageClipping, IsRefusedBesideTheGlobalNorm) {
  auto o = options_of("1f1b", {1, 1});
  o.clip_norm = o.clip_stage_norm = 1;
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("--clip-norm and --clip-stage-norm")));
}

TEST(Optimizers, AdamWithAndWithoutCorrectionAgreesWithTheOracle) {
  for (const auto* name : {"adam", "adamw"})
    for (const bool corrects : {true, false}) {
      auto o = options_of("pipedream", {1, 2, 1});
      o.optimizer = {.name = name, .weight_decay = 0.01F, .bias_correction = corrects};
      o.lr.base = 1e-3F;
      o.decay_norm_bias = false;
      same_as_oracle(o);
    }
}

class Asgd : public ::testing::Test {
protected:
  run_setup options(const std::string& schedule, std::vector<int> replicas, std::int64_t from) const {
    auto o = options_of(schedule, std::move(replicas));
    o.optimizer = {.name = "asgd", .average_from = from};
    o.save_weights = folder_.path() / "weights.safetensors";
    return o;
  }
  testing_support::temporary_folder folder_;
};

TEST_F(Asgd, TrainsAsSgdAndEvaluatesAndSavesTheAverage) {
  for (const auto* schedule : {"pipedream", "1f1b"})
    for (const auto& replicas : pipelines) {
      SCOPED_TRACE(schedule);
      const auto averaged = same_as_oracle(options(schedule, replicas, 6));
      const auto average = contents(folder_ / "weights.safetensors");
      for (const auto& [name, value] : contents(folder_ / "weights.safetensors.oracle"))
        EXPECT_TRUE(same_bits(value, average.at(name))) << name;
      auto plain = options(schedule, replicas, 6);
      plain.optimizer = {.name = "sgd", .momentum = 0};
      const auto sgd = train_tiny(plain);
      EXPECT_EQ(averaged.summary.weights_sha256, sgd.summary.weights_sha256);
      EXPECT_FALSE(same_bits(contents(folder_ / "weights.safetensors").at("fc1.weight"), average.at("fc1.weight")));
      // The first evaluation is before any average, the second one is of it.
      const auto loss = [](const training_result& r, std::size_t i) { return r.seen.evaluations.at(i).found.loss; };
      EXPECT_EQ(loss(averaged, 0), loss(sgd, 0));
      EXPECT_NE(loss(averaged, 1), loss(sgd, 1));
    }
}

TEST_F(Asgd, ThatNeverAveragesIsSgd) {
  auto o = options("pipedream", {1, 1}, 1000);
  train_tiny(o);
  const auto unaveraged = contents(folder_ / "weights.safetensors");
  o.optimizer = {.name = "sgd", .momentum = 0};
  train_tiny(o);
  for (const auto& [name, value] : contents(folder_ / "weights.safetensors"))
    EXPECT_TRUE(same_bits(value, unaveraged.at(name))) << name;
}

TEST_F(Asgd, ResumesWithWeightsAndAverageBoth) {
  for (const std::int64_t from : {2, 6, 9}) { // before, at and after the checkpoint of step 6
    const auto with_checkpoint = [&](const char* folder) {
      auto o = options("pipedream", {1, 2, 1}, from);
      o.checkpoint = folder_ / folder;
      o.checkpoint_every = 6;
      return o;
    };
    const auto whole = train_tiny(with_checkpoint("whole"));
    const auto wanted = contents(folder_ / "weights.safetensors");
    auto part = with_checkpoint("parts");
    part.steps = 6;
    train_tiny(part);
    part = with_checkpoint("parts");
    part.resume = true;
    const auto resumed = train_tiny(part);
    EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256) << from;
    EXPECT_EQ(resumed.summary.state_sha256, whole.summary.state_sha256) << from;
    for (const auto& [name, value] : contents(folder_ / "weights.safetensors"))
      EXPECT_TRUE(same_bits(value, wanted.at(name))) << name << " " << from;
    std::filesystem::remove_all(folder_ / "whole");
    std::filesystem::remove_all(folder_ / "parts");
  }
}

// Labels are random: what is learnt makes the test set worse, so evaluations soon do.
class AsgdTrigger : public Asgd {
protected:
  run_setup triggered(const std::string& schedule, std::vector<int> replicas) const {
    auto o = options(schedule, std::move(replicas), 0);
    o.epochs = 8;
    o.lr.base = 0.1F;
    o.asgd_patience = 1;
    return o;
  }
  // The step in its note; -1 where there is none.
  static std::int64_t switched_at(const training_result& r) {
    const std::string begin = "asgd: weights are averaged from step ";
    for (const auto& note : r.seen.notes)
      if (note.starts_with(begin)) return std::stoll(note.substr(begin.size()));
    return -1;
  }
};

TEST_F(AsgdTrigger, AveragesFromTheEvaluationThatSaysSoOnEveryRankAndInTheOracle) {
  for (const auto* schedule : {"pipedream", "1f1b"}) {
    SCOPED_TRACE(schedule);
    auto o = triggered(schedule, {1, 2, 1});
    const auto found = train_tiny(o);
    const auto step = switched_at(found);
    ASSERT_GT(step, 6) << "not at the first evaluation";
    ASSERT_LT(step, 48);
    EXPECT_EQ(train_tiny_ranks(o, 4).summary.state_sha256, found.summary.state_sha256);
    auto oracle = o;
    oracle.executor = executor_kind::oracle;
    EXPECT_EQ(train_tiny(oracle).summary.state_sha256, found.summary.state_sha256);
    const auto average = contents(folder_ / "weights.safetensors");
    o.asgd_patience = 0;
    o.optimizer.average_from = step;
    const auto by_hand = train_tiny(o);
    EXPECT_EQ(by_hand.summary.weights_sha256, found.summary.weights_sha256);
    EXPECT_EQ(by_hand.summary.state_sha256, found.summary.state_sha256);
    for (const auto& [name, value] : contents(folder_ / "weights.safetensors"))
      EXPECT_TRUE(same_bits(value, average.at(name))) << name;
    ASSERT_EQ(by_hand.seen.evaluations.size(), found.seen.evaluations.size());
    for (std::size_t i = 0; i < found.seen.evaluations.size(); ++i)
      EXPECT_EQ(by_hand.seen.evaluations[i].found.loss, found.seen.evaluations[i].found.loss);
  }
}

TEST_F(AsgdTrigger, IsInCheckpointsWithTheLossesBefore) {
  const auto with_checkpoint = [&](const char* folder) {
    auto o = triggered("pipedream", {1, 1});
    o.checkpoint = folder_ / folder;
    o.checkpoint_every = 9;
    return o;
  };
  const auto whole = train_tiny(with_checkpoint("whole"));
  const auto step = switched_at(whole);
  ASSERT_GT(step, 9);
  for (const std::int64_t leg : {std::int64_t{9}, step, std::int64_t{36}}) { // before, at and after the switch
    SCOPED_TRACE(leg);
    auto part = with_checkpoint("parts");
    part.steps = leg;
    train_tiny(part);
    part.steps = 0;
    part.resume = true;
    const auto resumed = train_tiny(part);
    EXPECT_EQ(switched_at(resumed), leg < step ? step : -1);
    if (leg % 9 == 0) { // else it drained elsewhere
      EXPECT_EQ(resumed.summary.state_sha256, whole.summary.state_sha256);
    }
    std::filesystem::remove_all(folder_ / "parts");
  }
}

} // namespace
} // namespace penstock::testing
