// A run in several ranks has the same bits as in one process, whatever the schedule, the replicas and the ranks.
#include "actors/layer_actor.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/note_text.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"
#include "transport/in_process.hpp"

#include <caf/actor_system.hpp>
#include <gmock/gmock.h>

#include <future>
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
  int chunks = 0;
  std::vector<std::int64_t> update_lag{};
};

std::string name_of(const ::testing::TestParamInfo<setting>& info) {
  std::string name = info.param.schedule;
  std::replace(name.begin(), name.end(), '-', '_');
  std::erase(name, '_');
  for (const int r : info.param.replicas)
    name += "x" + std::to_string(r);
  if (info.param.chunks > 0) name += "v" + std::to_string(info.param.chunks);
  name += "m" + std::to_string(info.param.microbatches);
  for (const auto lag : info.param.update_lag)
    name += "d" + std::to_string(lag);
  return name;
}

class Ranks : public ::testing::TestWithParam<setting> {
public:
  static run_setup options() {
    auto o = tiny_options();
    o.schedule = GetParam().schedule;
    o.replicas = GetParam().replicas;
    o.microbatches = GetParam().microbatches;
    o.chunks = GetParam().chunks;
    o.update_lag = GetParam().update_lag;
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
      EXPECT_EQ(parted.seen.evaluations[i].found.loss, whole.seen.evaluations[i].found.loss);
    EXPECT_EQ(parted.summary.drains, whole.summary.drains);
    for (std::size_t s = 0; s < whole.summary.stages.size(); ++s)
      EXPECT_EQ(parted.summary.stages[s].updates, whole.summary.stages[s].updates);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Ranks,
    ::testing::Values(setting{"pipedream", {1, 1}}, setting{"pipedream", {1, 1, 1}}, setting{"pipedream", {3, 1}},
                      setting{"pipedream", {2, 1, 2}}, setting{"pipedream", {1, 2, 1}}, setting{"pipedream", {2}},
                      setting{"pipedream", {4}, 0, 0, {1}}, setting{"pipedream", {3, 1}, 0, 0, {2}},
                      setting{"pipedream", {2, 1, 2}, 0, 0, {1, 0, 1}}, setting{"pipedream", {1, 1}, 0, 0, {1}},
                      setting{"model-parallel", {1, 1}}, setting{"data-parallel", {4}},
                      setting{"data-parallel", {3}, 5}, setting{"gpipe", {1, 1, 1}, 4}, setting{"1f1b", {2, 1}, 3},
                      setting{"zb-h1", {1, 1, 1, 1}, 5}, setting{"zb-h2", {1, 2, 1}, 4}, setting{"zb-h1", {2, 1, 2}, 3},
                      setting{"1f1b", {1, 2, 1}, 4}, setting{"pipedream-vertical-sync", {1, 1, 1}},
                      setting{"pipedream-vertical-sync", {2, 2}}, setting{"pipedream-naive", {1, 1}},
                      setting{"2bw", {1, 1}, 2}, setting{"2bw", {2, 1}, 4}, setting{"interleaved", {1, 1}, 4, 2},
                      setting{"interleaved", {1, 1, 1}, 5, 3}, setting{"interleaved", {2, 2}, 3, 2},
                      setting{"interleaved", {3}, 4, 2}, setting{"interleaved", {1, 1, 1, 1}, 1, 3}),
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

TEST(RanksOptions, AStopInAnEvaluationKeepsTheStepThatItEvaluates) {
  auto o = tiny_options(); // six steps an epoch
  o.replicas = {2, 1};
  o.eval_every = 1;
  o.eval_batch = 1;
  auto until_there = o;
  until_there.steps = 6;
  const auto whole = train_tiny(until_there);
  for (const int ranks : {1, 2, 3}) {
    const testing_support::temporary_folder folder;
    o.checkpoint = folder / "c";
    const auto stopped = train_tiny_ranks(o, ranks, {.stop_in_evaluation = true});
    EXPECT_EQ(stopped.summary.end, actors::run_end::interrupted) << ranks;
    EXPECT_EQ(stopped.summary.steps, 6) << ranks;
    EXPECT_EQ(stopped.summary.state_sha256, whole.summary.state_sha256) << ranks;
    EXPECT_EQ(stopped.seen.checkpoints, std::vector<std::int64_t>{6}) << ranks;
    for (const auto& e : stopped.seen.evaluations) // one that was all but done is whole
      EXPECT_EQ(e.found.samples, 20) << ranks;
  }
}

TEST(RanksOptions, TheOracleStopsInAnEvaluationToo) {
  auto o = tiny_options();
  o.eval_every = 1;
  o.eval_batch = 1;
  o.executor = actors::executor_kind::oracle;
  const auto stopped = train_tiny(o, {.stop_in_evaluation = true});
  EXPECT_EQ(stopped.summary.end, actors::run_end::interrupted);
  EXPECT_EQ(stopped.summary.steps, 6);
  EXPECT_TRUE(stopped.seen.evaluations.empty());
  EXPECT_FALSE(stopped.summary.evaluation);
}

TEST(RanksOptions, AStopBeforeTrainingTrainsNothingOnAnyRank) {
  const testing_support::temporary_folder folder;
  auto o = tiny_options();
  o.replicas = {2, 1};
  o.checkpoint = folder / "c";
  std::vector<actors::run_control> wishes(3);
  wishes[1].stop = true;
  EXPECT_THROW(train_tiny_ranks(o, 3, {.wishes = &wishes}), actors::run_stopped);
  EXPECT_FALSE(exists(folder / "c" / "latest"));
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

TEST(RanksOptions, ADataSetSmallerThanABatchLeavesReplicasWithoutWork) {
  for (const std::vector<int>& replicas : {std::vector<int>{3, 1}, {2, 2}, {1, 3}}) {
    auto o = tiny_options();
    o.replicas = replicas;
    o.epochs = 12;
    const tiny_extras extras{.samples = 5};
    EXPECT_EQ(hashes(train_tiny_ranks(o, 4, extras)), hashes(train_tiny(o, extras)));
  }
}

// While its samples are loaded, before they are admitted anywhere, it asks for a checkpoint on one rank or another.
class wishing_images : public random_images {
public:
  wishing_images(std::vector<actors::run_control>& wishes, std::uint64_t every)
      : random_images(44, {3, 8, 8}, 5, 11), wishes_(wishes), every_(every) {}
  std::int64_t load(const actors::sample_key& key, bool training, float* input) const override {
    const auto call = calls_++;
    if (call % every_ == 0) wishes_[call / every_ % wishes_.size()].checkpoint = true;
    return random_images::load(key, training, input);
  }

private:
  std::vector<actors::run_control>& wishes_;
  std::uint64_t every_;
  mutable std::atomic<std::uint64_t> calls_{0};
};

training_result train_with_wishes(const run_setup& options, int ranks, std::uint64_t every) {
  std::vector<actors::run_control> wishes(static_cast<std::size_t>(ranks));
  const wishing_images train(wishes, every);
  return train_tiny_ranks(options, ranks, {.train = &train, .wishes = &wishes}, every);
}

TEST(RanksOptions, DrainsAtAnyMomentTrainEverySampleOnce) {
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.replicas = {2, 1};
  o.microbatches = 4; // dealt to the same replicas wherever a drain falls
  const auto whole = train_tiny(o);
  for (std::uint64_t every = 1; every <= 23; every += 2) {
    const testing_support::temporary_folder folder;
    o.checkpoint = folder / "c";
    const auto drained = train_with_wishes(o, 3, every);
    EXPECT_EQ(hashes(drained), hashes(whole)) << every; // a synchronous schedule has the same bits with any drains
    EXPECT_EQ(drained.seen.steps.size(), whole.seen.steps.size()) << every;
  }
}

TEST(RanksOptions, DrainsAtAnyMomentCutOffUpdatesOfAnySchedule) {
  for (const auto& [schedule, replicas, microbatches, chunks, update_lag] :
       {setting{"pipedream", {3, 1}}, setting{"pipedream", {2, 1, 2}}, setting{"2bw", {2, 1}, 2},
        setting{"pipedream", {3, 1}, 0, 0, {1}}, setting{"pipedream-vertical-sync", {2, 2}},
        setting{"gpipe", {1, 2}, 4}, setting{"data-parallel", {3}}, setting{"interleaved", {2, 2}, 3, 2}})
    for (const std::uint64_t every : {1, 5, 9, 14, 20}) {
      const testing_support::temporary_folder folder;
      auto o = tiny_options();
      o.schedule = schedule;
      o.replicas = replicas;
      o.microbatches = microbatches;
      o.chunks = chunks;
      o.update_lag = update_lag;
      o.checkpoint = folder / "c";
      const auto ranks = std::min(4, std::accumulate(replicas.begin(), replicas.end(), 0));
      const auto drained = train_with_wishes(o, ranks, every);
      EXPECT_EQ(drained.summary.steps, 12) << schedule << every;
      EXPECT_EQ(drained.seen.steps.size(), 12U) << schedule << every;
    }
}

// A rank's way to the others that says when this rank has done its part of a segment, or lets none begin here before
// another's has.
class watched_control final : public transport::control_plane {
public:
  watched_control(transport::control_plane& to, std::promise<void>& done) : to_(to), done_(&done) {}
  watched_control(transport::control_plane& to, std::future<void> until) : to_(to), until_(std::move(until)) {}
  int rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  const std::vector<transport::member>& members() const override { return to_.members(); }
  std::vector<std::string> all_gather(std::string_view name, std::string_view blob,
                                      std::chrono::milliseconds deadline) override {
    auto all = to_.all_gather(name, blob, deadline);
    if (name == "wishes 0" && until_.valid()) until_.wait_for(deadline);
    return all;
  }
  std::string broadcast(std::string_view name, std::string_view blob, std::chrono::milliseconds deadline) override {
    return to_.broadcast(name, blob, deadline);
  }
  void send(int to, std::string_view topic, std::string_view payload) override {
    to_.send(to, topic, payload);
    if (done_ != nullptr && actors::decode_note(payload).about == actors::note::subject::done)
      std::exchange(done_, nullptr)->set_value();
  }
  void on_message(std::string_view topic, message_handler handler) override {
    to_.on_message(topic, std::move(handler));
  }
  void doing(std::string_view what) override { to_.doing(what); }
  void fail(std::string_view what) override { to_.fail(what); }
  void suspect(int peer, std::string_view what) override { to_.suspect(peer, what); }
  std::optional<transport::job_failure> failure() const override { return to_.failure(); }
  void on_failure(failure_handler handler) override { to_.on_failure(std::move(handler)); }
  std::int64_t clock_offset_ns() const override { return to_.clock_offset_ns(); }
  void leave(std::chrono::milliseconds deadline) override { to_.leave(deadline); }

private:
  transport::control_plane& to_;
  std::promise<void>* done_ = nullptr;
  std::future<void> until_;
};

TEST(RanksOptions, AnIdleRankThatBeginsAfterADrainChangesNothing) {
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.ranks = {{1}, {0}}; // rank 1 is the last to be done, rank 2 is idle
  o.epochs = 30;
  o.eval_every = -1;
  auto data = transport::make_in_process_endpoints(3);
  auto control = transport::make_in_process_control(3);
  std::promise<void> done;
  watched_control last(*control[1], done);
  watched_control late(*control[2], done.get_future());
  const std::vector<transport::control_plane*> lines{control[0].get(), &last, &late};
  const random_images train(44, {3, 8, 8}, 5, 11);
  std::vector<actors::run_control> wishes(3);
  std::vector<recording_observer> seen(3);
  seen[0].control = &wishes[0];
  seen[0].stop_at = 2;
  std::vector<std::future<actors::run_summary>> runs;
  for (std::size_t r = 0; r < 3; ++r)
    runs.push_back(std::async(std::launch::async, [&, r] {
      const actors::job job{*lines[r], *data[r], std::chrono::seconds(20)};
      actors::run_inputs inputs;
      inputs.net = tiny_residual_network();
      inputs.train = &train;
      inputs.model_options = "tiny";
      inputs.ranks = &job;
      return actors::train(actors::settle_request(o, *inputs.net, {3, job.rank()}), o, inputs, seen[r], wishes[r]);
    }));
  for (auto& run : runs) {
    const auto summary = run.get();
    EXPECT_EQ(summary.end, actors::run_end::interrupted);
    EXPECT_EQ(summary.steps, static_cast<std::int64_t>(seen[0].steps.size()));
  }
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
