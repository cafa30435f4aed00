// Frozen layers compute as in an evaluation, keep nothing and get no gradient; the others are trained as if what the
// frozen ones make came from outside.
#include "kernels/device.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/stream.hpp"
#include "tests/kernels/core/chained_stages.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FrozenLayers : public ::testing::Test {
public:
  std::shared_ptr<device> machine = open_device({});
  std::unique_ptr<stream> work = machine->create_stream({.name = "frozen", .threads = 1});

  static std::vector<tensor> states_of(backend& ops, const segment& s) {
    std::vector<tensor> states;
    for (const auto& st : s.states()) {
      states.push_back(ops.allocate_zeroed(st.spec.type, st.spec.dims, memory_use::optimizer_state));
      for (std::int64_t i = 0; st.spec.type == dtype::f32 && i < states.back().elements(); ++i)
        states.back().data<float>()[i] = st.spec.initial + 0.125F * static_cast<float>(i);
    }
    return states;
  }
};

struct step {
  std::vector<floats> outputs, gradients, states;
  std::size_t kept = 0; // layers that left something
};

// A forward and a backward of the whole network with its first layers frozen, recomputed in between or not.
step whole_step(backend& ops, const std::shared_ptr<const model>& m, int frozen_until, bool recomputes) {
  const segment s(m, 0, static_cast<int>(m->layers().size()), frozen_until);
  const auto weights = drawn_weights(ops, s);
  auto states = FrozenLayers::states_of(ops, s);
  segment_call call{.seed = 5, .minibatch = 3};
  call.info.samples = 2;
  std::vector<tensor> begins_with;
  if (recomputes) call.kept = &begins_with;
  segment_activations kept;
  step found;
  for (const auto& t :
       s.forward(ops, call, {random_activation(ops, {2, 3, 6, 6}, 1)}, weights, states, recomputes ? nullptr : &kept))
    found.outputs.push_back(plain_values(ops, t));
  if (recomputes) {
    call.kept = nullptr;
    call.update_state = false;
    s.recompute(ops, call, std::move(begins_with), weights, states, kept);
  }
  for (const auto& of_layer : kept.saved)
    found.kept += of_layer.empty() ? 0 : 1;
  std::vector<tensor> gradients(weights.size());
  EXPECT_THAT(s.backward(ops, call, {random_activation(ops, {2, 4}, 2)}, weights, std::move(kept), gradients),
              IsEmpty());
  for (const auto& g : gradients)
    found.gradients.push_back(plain_values(ops, g));
  for (const auto& t : states)
    found.states.push_back(plain_values(ops, t));
  return found;
}

// The same, where the frozen layers are a segment of their own that is evaluated.
step apart(backend& ops, const std::shared_ptr<const model>& m, int frozen_until) {
  const segment front(m, 0, frozen_until), rest(m, frozen_until, static_cast<int>(m->layers().size()));
  const auto front_weights = drawn_weights(ops, front), weights = drawn_weights(ops, rest);
  auto front_states = FrozenLayers::states_of(ops, front), states = FrozenLayers::states_of(ops, rest);
  segment_call call{.mode = phase::evaluation, .seed = 5, .minibatch = 3, .update_state = false};
  call.info.samples = 2;
  auto flow = front.forward(ops, call, {random_activation(ops, {2, 3, 6, 6}, 1)}, front_weights, front_states, nullptr);
  call.mode = phase::training;
  call.update_state = true;
  segment_activations kept;
  step found;
  for (const auto& t : rest.forward(ops, call, std::move(flow), weights, states, &kept))
    found.outputs.push_back(plain_values(ops, t));
  std::vector<tensor> gradients(weights.size());
  rest.backward(ops, call, {random_activation(ops, {2, 4}, 2)}, weights, std::move(kept), gradients);
  found.gradients.resize(front_weights.size());
  for (const auto& g : gradients)
    found.gradients.push_back(plain_values(ops, g));
  for (const auto* all : {&front_states, &states})
    for (const auto& t : *all)
      found.states.push_back(plain_values(ops, t));
  return found;
}

TEST_F(FrozenLayers, ThoseBehindThemAreTrainedAsIfTheirInputsCameFromOutside) {
  const auto m = residual_network();
  work->run([&](backend& ops) {
    std::size_t kept = whole_step(ops, m, 0, false).kept;
    for (int f = 1; f + 1 < static_cast<int>(m->layers().size()); ++f) {
      SCOPED_TRACE("frozen until " + m->layers()[static_cast<std::size_t>(f)].name);
      const auto wanted = apart(ops, m, f);
      const auto found = whole_step(ops, m, f, false);
      EXPECT_EQ(found.outputs, wanted.outputs);
      EXPECT_EQ(found.gradients, wanted.gradients);
      EXPECT_EQ(found.states, wanted.states);
      EXPECT_LE(found.kept, kept) << "the deeper, the less is kept";
      kept = found.kept;
      const auto again = whole_step(ops, m, f, true);
      EXPECT_EQ(again.outputs, wanted.outputs);
      EXPECT_EQ(again.gradients, wanted.gradients);
      EXPECT_EQ(again.states, wanted.states);
    }
    EXPECT_LE(kept, 4U);
  });
}

TEST_F(FrozenLayers, NothingBeforeTheFirstActiveOneWantsAGradient) {
  const auto m = residual_network();
  const segment s(m, 2, 9, 5);
  EXPECT_EQ(s.first_active(), 5);
  EXPECT_FALSE(s.is_frozen());
  EXPECT_EQ(s.frozen_parameters(), 4U) << "conv2's and bn2's";
  for (int l = 0; l < 9; ++l)
    EXPECT_FALSE(s.wants_gradient(m->layers()[static_cast<std::size_t>(l)].outputs.front()))
        << "none with parameters is active so far";
  const segment front(m, 0, 2, 5);
  EXPECT_TRUE(front.is_frozen());
  EXPECT_EQ(front.frozen_parameters(), front.parameters().size());
  EXPECT_EQ(segment(m, 0, 2).frozen_parameters(), 0U);
}

// trunk, aux.fc, aux.head, relu, head.
std::shared_ptr<const model> two_losses() {
  model_builder b("net");
  const auto x = b.input("input", dtype::f32, {4});
  const auto labels = b.input("labels", dtype::i64, {}, {.below = 3});
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, value_id from) {
    return b.add(name, layers::linear({.in_features = in, .out_features = out}), {from});
  };
  const auto trunk = linear("trunk", 4, 5, x);
  const auto aux = linear("aux.head", 5, 3, linear("aux.fc", 5, 5, trunk));
  const auto head = linear("head", 5, 3, b.add("relu", layers::relu(), {trunk}));
  b.loss("loss", losses::cross_entropy(), {head, labels});
  b.loss("aux", losses::cross_entropy(), {aux, labels}, {.weight = 0.5F});
  return std::make_shared<const model>(b.build());
}

TEST_F(FrozenLayers, LossesAmongThemAreNotComputedInTrainingNorWhatOnlyTheyNeed) {
  const auto m = two_losses();
  const auto run = [&](int frozen_until, phase mode) {
    std::vector<std::string> layers;
    std::vector<bool> sums;
    work->run([&](backend& ops) {
      const segment s(m, 0, 5, frozen_until);
      segment_call call{.mode = mode, .info = {.samples = 2, .counts = {2}}};
      call.observe = [&](const layer_observation& o) {
        layers.push_back(m->layers()[static_cast<std::size_t>(o.layer)].name);
      };
      auto labels = ops.allocate(dtype::i64, {2}, memory_use::scratch);
      std::fill_n(labels.data<std::int64_t>(), 2, 1);
      segment_losses losses;
      s.forward(ops, call, {random_activation(ops, {2, 4}, 3), labels}, drawn_weights(ops, s), {}, nullptr, &losses);
      for (const auto& l : losses)
        sums.push_back(bool(l.sums));
    });
    return std::pair(layers, sums);
  };
  EXPECT_THAT(run(2, phase::training).first, ElementsAre("trunk", "aux.fc", "aux.head", "relu", "head"));
  EXPECT_THAT(run(2, phase::training).second, Each(true)) << "aux.head is active, and so is its loss";
  EXPECT_THAT(run(3, phase::training).first, ElementsAre("trunk", "relu", "head"));
  EXPECT_THAT(run(3, phase::training).second, ElementsAre(true, false));
  EXPECT_THAT(run(3, phase::evaluation).second, Each(true)) << "an evaluation is what it was";

  const segment front(m, 0, 1, 3), aux(m, 1, 3, 3);
  EXPECT_TRUE(aux.is_needed(m->layers()[0].outputs[0], 1, phase::training));
  EXPECT_FALSE(aux.is_needed(m->layers()[1].outputs[0], 2, phase::training)) << "only the loss that is left out";
  microbatch_info nothing;
  nothing.samples = 2;
  EXPECT_FALSE(aux.counts_anything(nothing));
  nothing.counts[0] = 2;
  EXPECT_TRUE(aux.counts_anything(nothing));
}

} // namespace
} // namespace penstock::testing
