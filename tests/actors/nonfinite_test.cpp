// A NaN or infinity is refused wherever it enters and at the next drain where training makes it: behind a ReLU or a
// maximum it may look like 0, and a run that goes on tells plausible losses.
#include "actors/layer_actor.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <caf/actor_system.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The identity but for what it is told to break; a plug-in's layer, as far as the runtime knows.
struct deeds {
  std::optional<float> output{};            // in minibatch 3
  std::optional<float> evaluation_output{}; // in an evaluation
  std::optional<float> input_gradient{};    // of minibatch 3
  std::optional<float> weight_gradient{};   // of minibatch 3
  float initial_weight = 1;
  float initial_state = 1;
  float forward_factor = 1;
  float backward_factor = 1;
};

class meddling_layer : public layer {
public:
  explicit meddling_layer(deeds d) : deeds_(d) {}
  std::string_view kind() const override { return "meddling"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{"weight", {2}, {initializer_kind::constant, deeds_.initial_weight}}};
  }
  std::vector<state_spec> states(std::span<const tensor_spec>) const override {
    return {{"seen", dtype::f32, {2}, deeds_.initial_state, 0}};
  }
  forward_result forward(run_context& c, std::span<tensor> in, std::span<const tensor>) const override {
    const bool training = c.mode == phase::training;
    return {{changed(c, in[0], deeds_.forward_factor,
                     !training                 ? deeds_.evaluation_output
                     : c.random.minibatch == 3 ? deeds_.output
                                               : std::nullopt)},
            {}};
  }
  backward_result backward(run_context& c, std::span<tensor> dy, std::span<const tensor> weights,
                           std::span<const tensor>) const override {
    auto odd = c.ops.allocate(dtype::f32, {2}, memory_use::gradients);
    c.ops.fill(odd, c.random.minibatch == 3 ? deeds_.weight_gradient.value_or(0.0F) : 0.0F);
    auto dx = changed(c, dy[0], deeds_.backward_factor, c.random.minibatch == 3 ? deeds_.input_gradient : std::nullopt);
    if (deeds_.weight_gradient) { // of this layer's business: a weight that is not finite spoils what it sends on
      auto spoilt = c.ops.allocate(dx.type(), dx.dims(), memory_use::activations, dx.format());
      c.ops.on_host({dx, weights[0]}, {spoilt}, [](auto in, auto out) {
        std::copy_n(in[0].raw(), in[0].bytes(), out[0].raw());
        out[0].template data<float>()[0] *= in[1].template data<float>()[0];
      });
      dx = spoilt;
    }
    return {{dx}, {odd}};
  }

private:
  static tensor changed(run_context& c, const tensor& x, float factor, std::optional<float> bad) {
    auto y = c.ops.get<elementwise_ops>().scaled(x, factor);
    if (bad) {
      memory_pool host;
      const auto odd = tensor::allocate(host, dtype::f32, x.dims(), memory_use::scratch);
      std::fill_n(odd.data<float>(), odd.elements(), 0.0F);
      odd.data<float>()[0] = *bad;
      c.ops.get<elementwise_ops>().accumulate(y, c.ops.from_host(odd, memory_use::scratch));
    }
    return c.ops.reorder(y, x.format(), memory_use::activations);
  }
  deeds deeds_;
};

// What the layer breaks meets BatchNorm or a ReLU next, on one side and on the other.
std::shared_ptr<const model> network_with(deeds d) {
  using namespace layers;
  model_builder b("meddled", {3, 8, 8});
  auto x = b.add("conv", conv2d({.in_channels = 3, .out_channels = 8, .kernel = {3, 3}}), {b.input()});
  x = b.add("relu1", relu(), {x});
  x = b.add("meddler", std::make_shared<meddling_layer>(d), {x});
  x = b.add("relu2", relu(), {x});
  x = b.add("bn", batch_norm2d(8), {x});
  x = b.add("pool", pool2d({}), {x});
  x = b.add("flatten", flatten(), {x});
  x = b.add("fc", linear({.in_features = 72, .out_features = 5}), {x});
  return std::make_shared<const model>(b.build(x));
}

class images_with_one : public random_images {
public:
  images_with_one(float bad, std::int64_t at) : random_images(44, {3, 8, 8}, 5, 11), bad_(bad), at_(at) {}
  std::int64_t load(const actors::sample_key& key, bool training, float* input) const override {
    const auto label = random_images::load(key, training, input);
    if (key.index == at_) input[64 + 8 + 2] = bad_;
    return label;
  }

private:
  float bad_;
  std::int64_t at_;
};

// Puts one number into the first tensor of a message of minibatch 3.
class meddling_actor : public actors::layer_actor_factory {
public:
  meddling_actor(float bad, bool forward) : bad_(bad), forward_(forward) {}
  std::string after_layer() const override { return "conv"; }
  actors::neighbour_actor spawn(caf::actor_system& system, const actors::layer_actor_neighbours& n) const override {
    return system.spawn([n, *this](actors::neighbour_actor::pointer) -> actors::neighbour_actor::behavior_type {
      return {[=, *this](const actors::activation_msg& m) {
                caf::anon_send(n.next.of(m.key), changed(m, forward_, *n.work));
              },
              [=, *this](const actors::gradient_msg& m) {
                caf::anon_send(n.previous.of(m.key), changed(m, !forward_, *n.work));
              }};
    });
  }

private:
  template <class Message>
  Message changed(Message m, bool now, stream& work) const {
    if (!now || m.key.minibatch != 3) return m;
    auto& t = m.tensors[0].value;
    work.run([&](backend& ops) {
      auto other = ops.allocate(t.type(), t.dims(), memory_use::activations, t.format());
      ops.on_host({ops.from_host(t, memory_use::activations)}, {other}, [bad = bad_](auto in, auto out) {
        std::copy_n(in[0].raw(), in[0].bytes(), out[0].raw());
        out[0].template data<float>()[0] = bad;
      });
      t = other;
    });
    return m;
  }
  float bad_;
  bool forward_;
};

struct kind_of_run {
  const char* name;
  bool reference = false;
  int ranks = 1;
  actors::executor_kind executor = actors::executor_kind::actors;
};

class NonFinite : public ::testing::TestWithParam<kind_of_run> {
public:
  static run_setup options() {
    auto o = tiny_options();
    o.replicas = {1, 1};
    o.reference_kernels = GetParam().reference;
    o.executor = GetParam().executor;
    o.stall_seconds = 60;
    return o;
  }
  static training_result train(const run_setup& o, const tiny_extras& extras) {
    return GetParam().ranks > 1 ? train_tiny_ranks(o, GetParam().ranks, extras) : train_tiny(o, extras);
  }
  static void refuses(const run_setup& o, const tiny_extras& extras, const std::string& what, float value) {
    EXPECT_THAT([&] { train(o, extras); },
                ThrowsMessage<error>(AllOf(HasSubstr(what), HasSubstr("holds " + text_of(value) + " at ["))));
  }
  static std::string text_of(float v) { return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }
  static std::vector<float> values() {
    using limits = std::numeric_limits<float>;
    // Where ranks tell each other of an end, each takes its time.
    if (GetParam().ranks > 1) return {GetParam().reference ? -limits::infinity() : limits::quiet_NaN()};
    return {limits::quiet_NaN(), limits::infinity(), -limits::infinity()};
  }
};

TEST_P(NonFinite, ValueInAWeightsFileIsRefusedByTensorFileAndPlace) {
  const testing_support::temporary_folder folder;
  auto o = options();
  o.save_weights = folder / "good.safetensors";
  o.eval_only = true;
  const tiny_extras extras{.net = network_with({})};
  train(o, extras);
  o.save_weights.clear();
  o.weights = folder / "bad.safetensors";
  const std::vector<std::string> names{"fc.bias", "bn.running_var", "bn.running_mean", "conv.weight", "meddler.seen"};
  for (const auto& name : std::span(names).first(GetParam().ranks > 1 ? 2 : names.size()))
    for (const float value : values()) {
      memory_pool pool;
      auto all = read_safetensors(folder / "good.safetensors", pool).tensors;
      all.at(name).data<float>()[1] = value;
      write_safetensors(o.weights, all);
      refuses(o, extras, "[weights] " + o.weights.string() + ": tensor " + name, value);
    }
}

TEST_P(NonFinite, PixelIsRefusedInTrainingAndInEvaluation) {
  for (const float value : values()) {
    const images_with_one data(value, 17);
    const tiny_extras extras{.net = network_with({}), .train = &data};
    refuses(options(), extras, "[data] sample 17", value);
  }
}

TEST_P(NonFinite, StartOfAWeightOrStateOfAPlugInIsRefused) {
  auto o = options();
  o.eval_only = true;
  for (const float value : values()) {
    refuses(o, {.net = network_with({.initial_weight = value})}, "the initial value of meddler.weight", value);
    refuses(o, {.net = network_with({.initial_state = value})}, "the initial value of meddler.seen", value);
  }
  EXPECT_THAT([&] { train(o, {.net = network_with({.initial_state = -2})}); },
              ThrowsMessage<error>(HasSubstr("meddler.seen holds -2 at [0]; wanted at least 0")));
}

TEST_P(NonFinite, ResultOfAPlugInsLayerIsRefused) {
  for (const float value : values()) {
    refuses(options(), {.net = network_with({.output = value})}, "the output of meddler (meddling) in minibatch 3",
            value);
    refuses(options(), {.net = network_with({.input_gradient = value})},
            "an input gradient of meddler (meddling) in minibatch 3", value);
    refuses(options(), {.net = network_with({.evaluation_output = value})},
            "the output of meddler (meddling) in an evaluation", value);
  }
}

// At the end of a run that does not stash its weights, a backward follows an update with no forward in between.
TEST_P(NonFinite, UpdateIsToldBeforeTheBackwardThatItSpoils) {
  auto o = options();
  o.schedule = "pipedream-naive";
  o.replicas = {1, 1, 1};
  o.cuts = {1, 6};
  o.steps = 5;
  o.eval_every = -1;
  for (const float value : values())
    EXPECT_THAT([&] { train(o, {.net = network_with({.weight_gradient = value})}); },
                ThrowsMessage<error>(HasSubstr("the weights are not finite after an update: stage 1, parameter "
                                               "meddler.weight, minibatch 3")));
}

TEST_P(NonFinite, MessageOfALayerActorIsRefused) {
  if (GetParam().executor == actors::executor_kind::oracle) return; // it has no layer actors
  auto o = options();
  o.cuts = {1};
  for (const float value : values()) {
    refuses(o, {.layer_actors = {std::make_shared<meddling_actor>(value, true)}, .net = network_with({})},
            "the activation of conv from the layer actor beside stage 1", value);
    refuses(o, {.layer_actors = {std::make_shared<meddling_actor>(value, false)}, .net = network_with({})},
            "the gradient of conv from the layer actor beside stage 0", value);
  }
}

// The activations are finite, their squares are not; normalised by an infinite deviation they are 0, and so is the
// loss's share.
TEST_P(NonFinite, VarianceThatOverflowsIsFoundAtTheNextDrain) {
  auto o = options();
  o.eval_every = -1; // the end is a drain too
  refuses(o, {.net = network_with({.forward_factor = 1e25F})}, "[training] bn.running_var of stage 1 after 12 steps",
          std::numeric_limits<float>::infinity());
}

// An update divides by the root of the second moment: where that is infinite the weight stays, and all looks well.
TEST_P(NonFinite, SecondMomentThatOverflowsIsFoundAtTheNextDrain) {
  auto o = options();
  o.optimizer.name = "adamw";
  o.lr.base = 1e-3F;
  o.eval_every = 1;
  refuses(o, {.net = network_with({.backward_factor = 1e28F})}, "[training] optimizer state conv.",
          std::numeric_limits<float>::infinity());
}

TEST_P(NonFinite, CheckpointOfARunThatWentOnIsRefusedUnlessItGoesOnAgain) {
  const testing_support::temporary_folder folder;
  auto o = options();
  o.checkpoint = folder / "checkpoint";
  o.eval_every = -1;
  o.stop_on_nonfinite = false;
  const tiny_extras extras{.net = network_with({.forward_factor = 1e25F})};
  train(o, extras);
  o.resume = true;
  o.epochs = 3;
  o.stop_on_nonfinite = true;
  refuses(o, extras, "[checkpoint] " + o.checkpoint.string() + ": tensor state/0/bn.running_var",
          std::numeric_limits<float>::infinity());
  o.stop_on_nonfinite = false;
  EXPECT_EQ(train(o, extras).summary.steps, 18);
}

INSTANTIATE_TEST_SUITE_P(Runs, NonFinite,
                         ::testing::Values(kind_of_run{.name = "OneDnn"}, kind_of_run{"Reference", true},
                                           kind_of_run{"OneDnnRanks", false, 2}, kind_of_run{"ReferenceRanks", true, 2},
                                           kind_of_run{"Oracle", false, 1, actors::executor_kind::oracle}),
                         [](const auto& p) { return std::string(p.param.name); });

} // namespace
} // namespace penstock::testing
