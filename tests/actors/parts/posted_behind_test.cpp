// What goes onto a stream behind other work before that is done: updates behind backwards, forwards behind updates.
#include "actors/optimizer/optimizer_core.hpp"
#include "actors/run/resolved_run.hpp"
#include "actors/stage/inbox.hpp"
#include "actors/stage/places.hpp"
#include "actors/stage/work_line.hpp"
#include "actors/stage/worker_core.hpp"
#include "kernels/reference/reference_backend.hpp"
#include "tests/support/microbatch.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

#include <deque>

namespace penstock::testing {
namespace {

using namespace actors; // NOLINT: a test speaks of little else
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// -- failures ------------------------------------------------------------------------------

// Runs what it was given, and calls its completions, when it is told to.
class slow_stream final : public stream {
public:
  void post(work job, completion done) override { posted_.emplace_back(std::move(job), std::move(done)); }
  const stream_options& options() const override { return options_; }

  void run_one() {
    auto [job, done] = std::move(posted_.front());
    posted_.pop_front();
    std::exception_ptr failure;
    try {
      job(*ops_);
    } catch (...) {
      failure = std::current_exception();
    }
    done_.emplace_back(std::move(done), failure);
  }
  void complete_all() {
    for (auto& [done, failure] : std::exchange(done_, {}))
      done(failure);
  }

private:
  stream_options options_;
  std::shared_ptr<device> device_ = open_device({});
  std::unique_ptr<backend> ops_ = make_reference_backend(*device_);
  std::deque<std::pair<work, completion>> posted_;
  std::deque<std::pair<completion, std::exception_ptr>> done_;
};

class WorkLine : public ::testing::Test {
protected:
  void post(const std::string& name, bool throws = false, bool is_refused = false) {
    work_line::post(
        stream_, line_,
        [this, name, throws](backend&) {
          ran_.push_back(name);
          if (throws) throw error(name + " broke");
        },
        [name, is_refused] {
          if (is_refused) throw error(name + " is wrong");
        },
        [this, name](std::exception_ptr failure) {
          try {
            if (failure) std::rethrow_exception(failure);
            told_.push_back(name);
          } catch (const error& e) {
            told_.emplace_back(e.what());
          }
        });
  }
  slow_stream stream_;
  std::shared_ptr<work_line> line_ = std::make_shared<work_line>();
  std::vector<std::string> ran_, told_;
};

TEST_F(WorkLine, TellsOfTheFirstFailureAloneAndRunsNothingBehindIt) {
  post("forward");
  post("backward", true);
  post("update");
  for (int i = 0; i < 3; ++i)
    stream_.run_one();
  stream_.complete_all(); // far behind
  post("the next forward");
  stream_.run_one();
  stream_.complete_all();
  EXPECT_THAT(ran_, ElementsAre("forward", "backward"));
  EXPECT_THAT(told_, ElementsAre("forward", "backward broke"));
}

TEST_F(WorkLine, TakesARefusedResultForAFailure) {
  post("forward", false, true);
  post("backward", true); // and would tell of it
  post("update");
  stream_.run_one();
  stream_.run_one();
  stream_.complete_all();
  stream_.run_one();
  stream_.complete_all();
  EXPECT_THAT(ran_, ElementsAre("forward", "backward"));
  EXPECT_THAT(told_, ElementsAre("forward is wrong"));
}

// -- what the cores hand over ------------------------------------------------------------------

/// A run of one stage or two on this process, and what its first worker and optimizer do.
struct tiny_stage {
  explicit tiny_stage(std::vector<int> replicas, std::vector<std::int64_t> lag = {}, double clip_norm = 0) {
    run_setup o = tiny_options();
    o.schedule = "pipedream";
    if (clip_norm > 0) o.schedule = "gpipe";
    o.clip_norm = clip_norm;
    o.replicas = std::move(replicas);
    o.update_lag = std::move(lag);
    o.pin = false;
    inputs.net = net;
    inputs.train = &train;
    plan = resolve_run(settle_request(o, *net), o, inputs);
    parts = build_pipeline(*plan.plan, plan.options, net);
    run = plan_stretch(plan, 0, 0, 4);
    auto& s = parts->stages.front();
    optimizer.emplace(optimizer_place{}, plan.options, std::move(s.owned),
                      make_local_reducer(static_cast<int>(s.replicas.size())));
    std::vector<std::vector<tensor>> states{std::move(s.replicas.front().states)};
    worker.emplace(place_of(*parts, {0, 0}, plan.options, plan.dealing.source_credit()), std::move(states));
    begun = optimizer->on(begin_training_msg{run});
  }

  activation_msg admission(std::int64_t minibatch) const {
    activation_msg m{{.minibatch = minibatch, .since_drain = minibatch}, 0, info_of(8, 8), {}};
    const auto& fed = parts->stages.front().layers->fed();
    std::vector<tensor> tensors{tensor::allocate(*pool, dtype::f32, {8, 3, 8, 8}, memory_use::activations)};
    if (fed.size() > 1) tensors.push_back(tensor::allocate(*pool, dtype::i64, {8}, memory_use::activations));
    m.tensors = with_names(*net, fed, std::move(tensors));
    return m;
  }

  std::unique_ptr<memory_pool> pool = std::make_unique<memory_pool>();
  std::shared_ptr<const model> net = tiny_residual_network();
  random_images train{44, {3, 8, 8}, 5, 3};
  run_inputs inputs;
  resolved_run plan;
  std::unique_ptr<pipeline> parts;
  stretch_ptr run;
  std::optional<optimizer_core> optimizer;
  std::optional<worker_core> worker;
  optimizer_effects begun;
};

std::vector<std::string> names_of(const worker_effects& effects) {
  std::vector<std::string> names;
  for (const auto& e : effects)
    names.emplace_back(std::holds_alternative<compute>(e)
                           ? (std::get<compute>(e).job->what == stage_work::kind::forward ? "forward" : "backward")
                       : std::holds_alternative<give_gradients>(e)  ? "gradients"
                       : std::holds_alternative<return_credit>(e)   ? "credit"
                       : std::holds_alternative<send_loss>(e)       ? "loss"
                       : std::holds_alternative<send_activation>(e) ? "activation"
                                                                    : "other");
  return names;
}

gradient_share_msg share_of(const worker_effects& effects) {
  for (const auto& e : effects)
    if (const auto* given = std::get_if<give_gradients>(&e)) return given->share;
  throw std::logic_error("no gradients were given");
}

weights_msg weights_of(const optimizer_effects& effects) {
  for (const auto& e : effects) {
    if (const auto* sent = std::get_if<send_weights>(&e)) return sent->message;
    if (const auto* update = std::get_if<compute_update_of>(&e))
      return {update->job->stretch, 0, update->job->group + 1, update->job->made};
  }
  throw std::logic_error("no weights were sent");
}

TEST(PostedBehind, AnUpdateFollowsItsBackwardAndAForwardTheUpdateWhileNothingIsDone) {
  tiny_stage t({1});
  auto& worker = *t.worker;
  EXPECT_THAT(worker.on(begin_training_msg{t.run}), IsEmpty());
  EXPECT_THAT(worker.on(weights_of(t.begun)), IsEmpty());
  const auto first = worker.on(t.admission(0));
  EXPECT_THAT(names_of(first), ElementsAre("forward", "backward", "credit", "gradients"));

  const auto share = share_of(first);
  EXPECT_EQ(share.gradients, std::get<compute>(first[1]).job->gradients) << "which the backward is to fill in";
  const auto updates = t.optimizer->on(share);
  ASSERT_EQ(updates.size(), 1U);
  const auto& update = *std::get<compute_update_of>(updates[0]).job;
  EXPECT_TRUE(update.in_place) << "only what stands before it on the stream reads version 0";
  EXPECT_EQ(update.made->version, 1);
  EXPECT_THAT(t.optimizer->describe(), HasSubstr("has applied 0 of 4 updates, 1 under way"));

  EXPECT_THAT(worker.on(weights_of(updates)), IsEmpty());
  EXPECT_THAT(worker.on(t.admission(1)), IsEmpty()) << "two pieces of work are on the stream";
  const auto second = worker.completed(*std::get<compute>(first[0]).job);
  EXPECT_THAT(names_of(second), ElementsAre("forward", "loss"));
  EXPECT_EQ(std::get<compute>(second[0]).job->version, 1);

  const auto third = worker.completed(*std::get<compute>(first[1]).job);
  EXPECT_THAT(names_of(third), ElementsAre("backward", "credit", "gradients"));
  EXPECT_EQ(t.optimizer->on(share_of(third)).size(), 1U);
  EXPECT_THAT(t.optimizer->describe(), HasSubstr("has applied 0 of 4 updates, 2 under way"));
}

TEST(PostedBehind, AVersionThatALaterBackwardReadsIsNotWrittenOver) {
  tiny_stage t({1, 1});
  auto& worker = *t.worker;
  EXPECT_THAT(worker.on(begin_training_msg{t.run}), IsEmpty());
  EXPECT_THAT(worker.on(weights_of(t.begun)), IsEmpty());
  const auto forward = worker.on(t.admission(0));
  EXPECT_THAT(names_of(forward), ElementsAre("forward"));
  EXPECT_THAT(names_of(worker.on(t.admission(1))), ElementsAre("forward"));
  const auto& layers = *t.parts->stages.front().layers;
  auto& done = *std::get<compute>(forward[0]).job;
  done.outputs.resize(layers.outputs().size());
  EXPECT_THAT(names_of(worker.completed(done)), ElementsAre("activation"));
  gradient_msg gradient{{.since_drain = 0}, 0, {}};
  gradient.tensors = with_names(*t.net, layers.outputs(), std::vector<tensor>(layers.outputs().size()));
  const auto backward = worker.on(gradient);
  EXPECT_THAT(names_of(backward), ElementsAre("backward", "credit", "gradients"));
  const auto updates = t.optimizer->on(share_of(backward));
  EXPECT_FALSE(std::get<compute_update_of>(updates.at(0)).job->in_place) << "minibatch 1 goes back with version 0";
}

TEST(PostedBehind, GradientsOfSeveralReplicasLeaveWhenTheyAreDone) {
  tiny_stage t({2});
  auto& worker = *t.worker;
  EXPECT_THAT(worker.on(begin_training_msg{t.run}), IsEmpty());
  EXPECT_THAT(worker.on(weights_of(t.begun)), IsEmpty());
  const auto first = worker.on(t.admission(0));
  EXPECT_THAT(names_of(first), ElementsAre("forward", "backward", "credit"));
  EXPECT_THAT(names_of(worker.completed(*std::get<compute>(first[0]).job)), ElementsAre("loss"));
  const auto share = share_of(worker.completed(*std::get<compute>(first[1]).job));

  EXPECT_THAT(t.optimizer->on(share), IsEmpty());
  auto other = share;
  other.replica = 1;
  other.gradients = std::make_shared<std::vector<tensor>>();
  const auto sum = t.optimizer->on(other);
  ASSERT_EQ(sum.size(), 2U) << "the update goes onto the stream right behind the sum";
  EXPECT_THAT(std::get<sum_replicas>(sum[0]).gradients, ElementsAre(share.gradients, other.gradients));
  EXPECT_EQ(std::get<sum_replicas>(sum[0]).sum, std::get<compute_update_of>(sum[1]).job->gradients);
}

TEST(PostedBehind, AClippedUpdateWaitsForTheNormAlone) {
  tiny_stage t({1}, {}, 0.5);
  auto share = [](std::int64_t group) {
    return gradient_share_msg{.group = group, .minibatches = 1, .gradients = std::make_shared<std::vector<tensor>>()};
  };
  const auto squares = t.optimizer->on(share(0));
  ASSERT_EQ(squares.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<compute_squares>(squares[0]));
  EXPECT_THAT(t.optimizer->on(share(1)), IsEmpty());
  const auto clipped = t.optimizer->on(clip_msg{0, 0, 0.25F});
  ASSERT_EQ(clipped.size(), 2U);
  EXPECT_EQ(std::get<compute_update_of>(clipped[0]).job->order.gradient_scale, 0.25F);
  EXPECT_EQ(std::get<compute_squares>(clipped[1]).job->group, 1) << "though the update before is not done";
}

} // namespace
} // namespace penstock::testing
