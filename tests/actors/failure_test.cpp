// Runs that fail say why, once, and end: exceptions in layers, losses that are not finite, stalls, bad neighbours.
#include "actors/layer_actor.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/tiny_training.hpp"

#include <caf/actor_system.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The identity, until its n-th call does something else.
class faulty_layer : public layer {
public:
  enum class fault { none, throw_forward, throw_backward, infinite, not_a_number };
  faulty_layer(fault f, int at) : fault_(f), at_(at) {}
  std::string_view kind() const override { return "faulty"; }
  bool keeps_finite() const override { return true; } // so that what it breaks is found later
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  forward_result forward(run_context& context, std::span<tensor> inputs, std::span<const tensor>) const override {
    if (context.mode == phase::training && context.random.minibatch == at_) {
      if (fault_ == fault::throw_forward) throw std::runtime_error("the layer broke going forward");
      if (fault_ == fault::infinite || fault_ == fault::not_a_number) {
        auto bad = context.ops.allocate(dtype::f32, inputs[0].dims(), memory_use::activations, inputs[0].format());
        using limits = std::numeric_limits<float>;
        context.ops.fill(bad, fault_ == fault::infinite ? limits::infinity() : limits::quiet_NaN());
        return {{bad}, {}};
      }
    }
    return {{inputs[0]}, {}};
  }
  backward_result backward(run_context& context, std::span<tensor> dy, std::span<const tensor>,
                           std::span<const tensor>) const override {
    if (fault_ == fault::throw_backward && context.random.minibatch == at_)
      throw std::runtime_error("the layer broke going back");
    return {{dy[0]}, {}};
  }

private:
  fault fault_;
  int at_;
};

std::shared_ptr<const model> network_with(faulty_layer::fault f, int at) {
  using namespace layers;
  model_builder b("faulty", {3, 8, 8});
  auto x = b.add("flatten", flatten(), {b.input()});
  x = b.add("fc1", linear({.in_features = 192, .out_features = 16}), {x});
  x = b.add("fault", std::make_shared<faulty_layer>(f, at), {x});
  x = b.add("fc2", linear({.in_features = 16, .out_features = 5}), {x});
  return std::make_shared<const model>(b.build(x));
}

// The convolution's ReLU may make 0 of what the layer before it broke, and then no loss shows it.
std::shared_ptr<const model> network_that_hides(faulty_layer::fault f, int at) {
  using namespace layers;
  model_builder b("hiding", {3, 8, 8});
  auto x = b.add("conv1", conv2d({.in_channels = 3, .out_channels = 16, .kernel = {3, 3}}), {b.input()});
  x = b.add("fault", std::make_shared<faulty_layer>(f, at), {x});
  x = b.add("conv2", conv2d({.in_channels = 16, .out_channels = 16, .kernel = {3, 3}}), {x});
  x = b.add("relu", relu(), {x});
  x = b.add("flatten", flatten(), {x});
  x = b.add("fc", linear({.in_features = 256, .out_features = 5}), {x});
  return std::make_shared<const model>(b.build(x));
}

run_setup options_with_stages(int stages, actors::executor_kind executor = actors::executor_kind::actors) {
  auto o = tiny_options();
  o.replicas.assign(static_cast<std::size_t>(stages), 1);
  o.executor = executor;
  return o;
}

class Failure : public ::testing::TestWithParam<actors::executor_kind> {};

TEST_P(Failure, ExceptionInALayersForwardEndsTheRunWithItsMessage) {
  for (int stages = 1; stages <= 3; ++stages)
    EXPECT_THAT(
        [&] {
          train_tiny(options_with_stages(stages, GetParam()),
                     {.net = network_with(faulty_layer::fault::throw_forward, 4)});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("the layer broke going forward")));
}

TEST_P(Failure, ExceptionInALayersBackwardEndsTheRunWithItsMessage) {
  for (int stages = 1; stages <= 3; ++stages)
    EXPECT_THAT(
        [&] {
          train_tiny(options_with_stages(stages, GetParam()),
                     {.net = network_with(faulty_layer::fault::throw_backward, 4)});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("the layer broke going back")));
}

TEST_P(Failure, LossThatIsNotFiniteNamesStageMinibatchAndVersion) {
  EXPECT_THAT(
      [&] { train_tiny(options_with_stages(2, GetParam()), {.net = network_with(faulty_layer::fault::infinite, 5)}); },
      ThrowsMessage<error>(AllOf(HasSubstr("not finite"), HasSubstr("stage 1"), HasSubstr("minibatch 5"),
                                 HasSubstr("weight version 5"))));
}

TEST_P(Failure, NumberThatIsNoneNeverPassesAReluUnseen) {
  // Stage 1 starts at the faulty layer or behind it.
  for (const int cut : {1, 2}) {
    auto o = options_with_stages(2, GetParam());
    o.cuts = {cut};
    EXPECT_THAT([&] { train_tiny(o, {.net = network_with(faulty_layer::fault::not_a_number, 5)}); },
                ThrowsMessage<error>(AllOf(HasSubstr("loss is not finite"), HasSubstr("minibatch 5"))));
    EXPECT_THAT([&] { train_tiny(o, {.net = network_that_hides(faulty_layer::fault::not_a_number, 5)}); },
                ThrowsMessage<error>(
                    HasSubstr("[training] the weights are not finite after an update: stage 1, parameter conv2.weight, "
                              "minibatch 5, weight version 6")));
    o.stop_on_nonfinite = false;
    EXPECT_EQ(train_tiny(o, {.net = network_that_hides(faulty_layer::fault::not_a_number, 5)}).summary.steps, 12);
  }
}

TEST_P(Failure, LossThatIsNotFiniteIsLetThroughWhenAskedFor) {
  auto o = options_with_stages(2, GetParam());
  o.stop_on_nonfinite = false;
  EXPECT_EQ(train_tiny(o, {.net = network_with(faulty_layer::fault::infinite, 5)}).summary.steps, 12);
}

INSTANTIATE_TEST_SUITE_P(Executors, Failure,
                         ::testing::Values(actors::executor_kind::actors, actors::executor_kind::oracle),
                         [](const auto& p) { return p.param == actors::executor_kind::actors ? "Actors" : "Oracle"; });

// -- layer actors ----------------------------------------------------------------------

// Passes everything on, but for one message that it loses, doubles, or sends under another segment.
class meddling_actor : public actors::layer_actor_factory {
public:
  enum class deed { none, lose_activation, lose_gradient, double_activation, rename, reshape, stale };
  explicit meddling_actor(deed d) : deed_(d) {}
  std::string after_layer() const override { return "fc1"; }
  actors::neighbour_actor spawn(caf::actor_system& system, const actors::layer_actor_neighbours& n) const override {
    return system.spawn(
        [n, d = deed_, seen = seen_](actors::neighbour_actor::pointer) -> actors::neighbour_actor::behavior_type {
          return {[=](const actors::activation_msg& m) {
                    ++*seen;
                    auto out = m;
                    const bool now = m.key.mode == phase::training && m.key.minibatch == 3;
                    if (now && d == deed::lose_activation) return;
                    if (now && d == deed::rename) out.tensors[0].name = "nonsense";
                    if (now && d == deed::reshape)
                      out.tensors[0].value = out.tensors[0].value.reshaped({16, out.info.samples});
                    if (now && d == deed::stale) ++out.key.plan_epoch;
                    caf::anon_send(n.next.of(m.key), out);
                    if (now && d == deed::double_activation) caf::anon_send(n.next.of(m.key), out);
                  },
                  [=](const actors::gradient_msg& m) {
                    ++*seen;
                    if (d == deed::lose_gradient && m.key.minibatch == 3) return;
                    caf::anon_send(n.previous.of(m.key), m);
                  }};
        });
  }
  int seen() const { return *seen_; }

private:
  deed deed_;
  std::shared_ptr<std::atomic<int>> seen_ = std::make_shared<std::atomic<int>>(0);
};

training_result train_meddled(meddling_actor::deed d, std::shared_ptr<meddling_actor>* out = nullptr) {
  auto o = options_with_stages(2);
  o.cuts = {2};
  o.stall_seconds = 1;
  auto actor = std::make_shared<meddling_actor>(d);
  if (out != nullptr) *out = actor;
  return train_tiny(o, {.layer_actors = {actor}, .net = network_with(faulty_layer::fault::none, 0)});
}

TEST(LayerActor, OneThatPassesEverythingOnChangesNoBit) {
  auto o = options_with_stages(2);
  o.cuts = {2};
  const auto without = train_tiny(o, {.net = network_with(faulty_layer::fault::none, 0)});
  std::shared_ptr<meddling_actor> actor;
  const auto with = train_meddled(meddling_actor::deed::none, &actor);
  EXPECT_EQ(with.summary.weights_sha256, without.summary.weights_sha256);
  EXPECT_EQ(actor->seen(), 12 * 2 + 2 * 3); // two epochs of six minibatches, two evaluations of three batches
}

TEST(LayerActor, LostMessageStallsAndTheWaitForGraphIsPrinted) {
  EXPECT_THAT(
      [] { train_meddled(meddling_actor::deed::lose_activation); },
      ThrowsMessage<error>(AllOf(
          HasSubstr("no progress for 1 s"),
          HasSubstr(
              "stage 1 cannot run the forward of minibatch 3 micro-batch 0: it waits for the activation from stage 0"),
          HasSubstr("stage 0"), HasSubstr("the source"))));
  EXPECT_THAT(
      [] { train_meddled(meddling_actor::deed::lose_gradient); },
      ThrowsMessage<error>(HasSubstr(
          "stage 0 cannot run the backward of minibatch 3 micro-batch 0: it waits for the gradient from stage 1")));
}

TEST(LayerActor, MessageThatDoesNotFitIsNamed) {
  EXPECT_THAT([] { train_meddled(meddling_actor::deed::rename); }, ThrowsMessage<error>(HasSubstr("'fc1' is missing")));
  EXPECT_THAT([] { train_meddled(meddling_actor::deed::reshape); },
              ThrowsMessage<error>(HasSubstr("tensor 'fc1' is F32 [16, 8]")));
  EXPECT_THAT([] { train_meddled(meddling_actor::deed::stale); }, ThrowsMessage<error>(HasSubstr("plan epoch 1")));
}

TEST(LayerActor, SecondMessageWithTheSameKeyIsAFault) {
  EXPECT_THAT([] { train_meddled(meddling_actor::deed::double_activation); },
              ThrowsMessage<error>(
                  ::testing::AnyOf(HasSubstr("came twice"), HasSubstr("beyond the credits"), HasSubstr("already"))));
}

TEST(LayerActor, IsRefusedByTheOracleAndWhereNoStageEnds) {
  auto o = options_with_stages(2, actors::executor_kind::oracle);
  o.cuts = {2};
  const tiny_extras extras{.layer_actors = {std::make_shared<meddling_actor>(meddling_actor::deed::none)},
                           .net = network_with(faulty_layer::fault::none, 0)};
  EXPECT_THAT([&] { train_tiny(o, extras); }, ThrowsMessage<usage_error>(HasSubstr("oracle")));
  o.executor = actors::executor_kind::actors;
  o.cuts = {3};
  EXPECT_THAT([&] { train_tiny(o, extras); }, ThrowsMessage<usage_error>(HasSubstr("no stage ends there")));
}

// Ends by itself, at one moment or another.
class dying_actor : public actors::layer_actor_factory {
public:
  enum class moment { made, started, asked, quits };
  explicit dying_actor(moment when) : when_(when) {}
  std::string after_layer() const override { return "fc1"; }
  actors::neighbour_actor spawn(caf::actor_system& system, const actors::layer_actor_neighbours&) const override {
    if (when_ == moment::made) throw std::runtime_error("it was not made");
    return system.spawn(
        [when = when_](actors::neighbour_actor::pointer self) -> actors::neighbour_actor::behavior_type {
          if (when == moment::started) throw std::runtime_error("it did not start");
          return {[=](const actors::activation_msg&) {
                    if (when == moment::asked) throw std::runtime_error("it broke");
                    self->quit();
                  },
                  [](const actors::gradient_msg&) {}};
        });
  }

private:
  moment when_;
};

TEST(LayerActor, OneThatDiesIsTheFirstCauseAtOnce) {
  auto o = options_with_stages(2);
  o.cuts = {2};
  o.stall_seconds = 300; // no watchdog is needed
  const auto dies = [&](dying_actor::moment when) {
    train_tiny(
        o, {.layer_actors = {std::make_shared<dying_actor>(when)}, .net = network_with(faulty_layer::fault::none, 0)});
  };
  EXPECT_THAT([&] { dies(dying_actor::moment::made); }, ThrowsMessage<error>(HasSubstr("it was not made")));
  for (const auto when : {dying_actor::moment::started, dying_actor::moment::asked, dying_actor::moment::quits})
    EXPECT_THAT([&] { dies(when); }, ThrowsMessage<error>(AllOf(HasSubstr("[the layer actor after fc1]"),
                                                                HasSubstr("ended though the run goes on"))));
}

// -- refusals before anything runs ---------------------------------------------------------

TEST(Refusals, NameWhatWasFoundAndWhatWasWanted) {
  const auto refused = [](auto change, const char* text) {
    auto o = tiny_options();
    change(o);
    EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr(text)));
  };
  refused([](auto& o) { o.replicas.assign(14, 1); }, "13 layers; 14 stages");
  refused([](auto& o) { o.schedule = "1f1b", o.microbatches = 9; }, "batch 8 cannot be split into 9");
  refused([](auto& o) { o.schedule = "pipedrem"; }, "pipedream");
  refused([](auto& o) { o.microbatches = 2; }, "2bw");
  refused([](auto& o) { o.in_flight = {planner::in_flight_spec::mode::given, {0}}; }, "wanted at least 1");
  refused([](auto& o) { o.replicas = {1, 0}; }, "wanted at least 1");
  refused([](auto& o) { o.batch = 0; }, "batch is 0");
  refused([](auto& o) { o.optimizer.name = "sdg"; }, "sgd");
  refused([](auto& o) { o.replicas = {1, 1}, o.cuts = {13}; }, "cuts");
  refused([](auto& o) { o.resume = true; }, "checkpoint folder");
  refused([](auto& o) { o.threads = 100000; }, "threads is 100000; wanted at most");
  refused([](auto& o) { o.loader_threads = 100000; }, "loader threads is 100000; wanted at most");
  refused([](auto& o) { o.replicas = {65536}; }, "wanted at most");
  refused([](auto& o) { o.executor = actors::executor_kind::oracle, o.trace = "t.pftrace"; }, "no actors to trace");
  refused([](auto& o) { o.resume = true, o.checkpoint = "ck", o.weights = "w"; }, "leave out the weights file");
}

} // namespace
} // namespace penstock::testing
