// A run in several ranks has the same bits as in one process, whatever the schedule, the replicas and the ranks.
#include "actors/layer_actor.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <caf/actor_system.hpp>
#include <gmock/gmock.h>

#include <numeric>

namespace penstock::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string hashes(const training_result& r) {
  return r.summary.weights_sha256 + " " + r.summary.state_sha256;
}

struct setting {
  std::string schedule;
  std::vector<int> replicas;
  int microbatches = 0;
};

std::string name_of(const ::testing::TestParamInfo<setting>& info) {
  std::string name = info.param.schedule;
  std::replace(name.begin(), name.end(), '-', '_');
  std::erase(name, '_');
  for (const int r : info.param.replicas)
    name += "x" + std::to_string(r);
  return name + "m" + std::to_string(info.param.microbatches);
}

class Ranks : public ::testing::TestWithParam<setting> {
public:
  static actors::run_options options() {
    auto o = tiny_options();
    o.schedule = GetParam().schedule;
    o.replicas = GetParam().replicas;
    o.microbatches = GetParam().microbatches;
    return o;
  }
};

TEST_P(Ranks, GiveTheBitsOfOneProcess) {
  const auto whole = train_tiny(options());
  const int workers = std::accumulate(GetParam().replicas.begin(), GetParam().replicas.end(), 0);
  for (int ranks = 2; ranks <= std::min(workers, 4); ++ranks) {
    const auto parted = train_tiny_ranks(options(), ranks, {}, static_cast<std::uint64_t>(ranks));
    EXPECT_EQ(hashes(parted), hashes(whole)) << ranks << " ranks";
    ASSERT_EQ(parted.seen.steps.size(), whole.seen.steps.size());
    for (std::size_t i = 0; i < whole.seen.steps.size(); ++i)
      EXPECT_EQ(parted.seen.steps[i].loss, whole.seen.steps[i].loss) << "step " << i;
    ASSERT_EQ(parted.seen.evaluations.size(), whole.seen.evaluations.size());
    for (std::size_t i = 0; i < whole.seen.evaluations.size(); ++i)
      EXPECT_EQ(parted.seen.evaluations[i].metrics.loss_sum, whole.seen.evaluations[i].metrics.loss_sum);
    EXPECT_EQ(parted.summary.drains, whole.summary.drains);
    for (std::size_t s = 0; s < whole.summary.stages.size(); ++s)
      EXPECT_EQ(parted.summary.stages[s].updates, whole.summary.stages[s].updates);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Ranks,
    ::testing::Values(setting{"pipedream", {1, 1}}, setting{"pipedream", {1, 1, 1}}, setting{"pipedream", {3, 1}},
                      setting{"pipedream", {2, 1, 2}}, setting{"pipedream", {1, 2, 1}}, setting{"pipedream", {2}},
                      setting{"model-parallel", {1, 1}}, setting{"data-parallel", {4}},
                      setting{"data-parallel", {3}, 5}, setting{"gpipe", {1, 1, 1}, 4}, setting{"1f1b", {2, 1}, 3},
                      setting{"1f1b", {1, 2, 1}, 4}, setting{"pipedream-vertical-sync", {1, 1, 1}},
                      setting{"pipedream-vertical-sync", {2, 2}}, setting{"pipedream-naive", {1, 1}},
                      setting{"2bw", {1, 1}, 2}, setting{"2bw", {2, 1}, 4}),
    name_of);

TEST(RanksOptions, ClippingSeesTheNormOfAllRanks) {
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.replicas = {2, 1};
  o.microbatches = 3;
  o.clip_norm = 0.5;
  EXPECT_EQ(hashes(train_tiny_ranks(o, 3)), hashes(train_tiny(o)));
}

class passing_actor : public actors::layer_actor_factory {
public:
  std::string after_layer() const override { return "relu2"; }
  actors::neighbour_actor spawn(caf::actor_system& system, const actors::layer_actor_neighbours& n) const override {
    return system.spawn([n](actors::neighbour_actor::pointer self) -> actors::neighbour_actor::behavior_type {
      return {[=](const actors::activation_msg& m) { self->send(n.next.of(m.key), m); },
              [=](const actors::gradient_msg& m) { self->send(n.previous.of(m.key), m); }};
    });
  }
};

TEST(RanksOptions, ALayerActorServesTheRanksOnBothSides) {
  auto o = tiny_options();
  o.replicas = {2, 2};
  o.cuts = {7};
  const auto whole = train_tiny(o);
  const tiny_extras extras{.layer_actors = {std::make_shared<passing_actor>()}};
  for (const int ranks : {2, 3, 4})
    EXPECT_EQ(hashes(train_tiny_ranks(o, ranks, extras)), hashes(whole)) << ranks;
}

TEST(RanksOptions, ARankThatThePlanLeavesIdleDoesNoHarm) {
  auto o = tiny_options();
  o.replicas = {1, 1};
  const auto whole = train_tiny(o);
  o.ranks = {{2}, {0}};
  EXPECT_EQ(hashes(train_tiny_ranks(o, 3)), hashes(whole));
}

TEST(RanksOptions, RecomputationAndAdamWGoAcrossRanks) {
  auto o = tiny_options();
  o.replicas = {2, 1};
  o.recompute = {true, false};
  o.optimizer.name = "adamw";
  o.lr.base = 1e-3F;
  EXPECT_EQ(hashes(train_tiny_ranks(o, 3)), hashes(train_tiny(o)));
}

TEST(RanksOptions, AStopOnOneRankEndsAllAtOneMinibatch) {
  const testing_support::temporary_folder folder;
  auto o = tiny_options();
  o.replicas = {2, 1};
  o.epochs = 40;
  o.eval_every = 0;
  const auto whole = train_tiny(o);
  o.checkpoint = folder / "c";
  tiny_extras extras;
  extras.stop_at = 3;
  const auto first = train_tiny_ranks(o, 3, extras);
  EXPECT_EQ(first.summary.end, actors::run_end::interrupted);
  EXPECT_LT(first.summary.steps, whole.summary.steps);
  o.resume = true;
  const auto rest = train_tiny_ranks(o, 2);
  EXPECT_EQ(rest.summary.steps, whole.summary.steps);
  EXPECT_EQ(first.seen.steps.size() + rest.seen.steps.size(), whole.seen.steps.size());
  o.checkpoint.clear();
  o.resume = false;
}

TEST(RanksOptions, CheckpointsGoIntoOtherPlansAndProcessCounts) {
  const testing_support::temporary_folder folder;
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.microbatches = 4;
  o.replicas = {1, 1, 1};
  o.checkpoint_every = 4;
  o.checkpoint = folder / "whole";
  const auto whole = train_tiny(o);
  o.checkpoint = folder / "c";
  auto part = o;
  part.steps = 8; // ends in the middle of the second epoch, where a checkpoint is due
  train_tiny_ranks(part, 3);
  o.resume = true;
  o.replicas = {1, 1};
  const auto rest = train_tiny_ranks(o, 2);
  EXPECT_EQ(rest.summary.weights_sha256, whole.summary.weights_sha256);
}

TEST(RanksOptions, AFailureOnOneRankEndsAllWithItsCause) {
  auto o = tiny_options();
  o.replicas = {1, 1, 1};
  o.lr.base = 1e30F;
  EXPECT_THAT([&] { train_tiny_ranks(o, 3); }, ThrowsMessage<error>(HasSubstr("not finite")));
}

TEST(RanksOptions, MoreRanksThanReplicasAreRefused) {
  EXPECT_THAT([] { train_tiny_ranks(tiny_options(), 2); },
              ThrowsMessage<usage_error>(HasSubstr("the job has 2 processes, the plan 1 stage replicas")));
}

} // namespace
} // namespace penstock::testing
