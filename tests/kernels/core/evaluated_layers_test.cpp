// An evaluation leaves out losses that serve training alone, and layers that only they need; nothing else changes.
#include "kernels/device.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/stream.hpp"
#include "tests/kernels/core/chained_stages.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using ::testing::ElementsAre;

// trunk, aux.fc, aux.relu, aux.head, relu, head; losses "loss" of head and "aux" of aux.head.
std::shared_ptr<const model> network(bool training_only) {
  model_builder b("net");
  const auto x = b.input("input", dtype::f32, {4});
  const auto labels = b.input("labels", dtype::i64, {}, {.below = 3});
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, value_id from) {
    return b.add(name, layers::linear({.in_features = in, .out_features = out}), {from});
  };
  const auto trunk = linear("trunk", 4, 5, x);
  const auto aux = linear("aux.head", 5, 3, b.add("aux.relu", layers::relu(), {linear("aux.fc", 5, 5, trunk)}));
  const auto head = linear("head", 5, 3, b.add("relu", layers::relu(), {trunk}));
  b.loss("loss", losses::cross_entropy(), {head, labels});
  b.loss("aux", losses::cross_entropy(), {aux, labels}, {.weight = 0.5F, .training_only = training_only});
  return std::make_shared<const model>(b.build());
}

struct seen {
  std::vector<std::string> layers;
  std::vector<bool> sums;             // of losses in the model's order: are there any?
  std::vector<double> loss;           // the first sum of each that has some
  std::vector<std::string> sent_none; // by the stages, across their cuts
};

seen evaluate(const std::shared_ptr<const model>& m, std::vector<int> cuts, phase mode = phase::evaluation) {
  seen found;
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(static_cast<int>(m->layers().size()));
  const auto machine = open_device({});
  machine->create_stream({.name = "evaluation", .threads = 1})->run([&](backend& ops) {
    const auto x = random_activation(ops, {2, 4}, 3);
    auto labels = ops.allocate(dtype::i64, {2}, memory_use::scratch);
    std::fill_n(labels.data<std::int64_t>(), 2, 1);
    std::vector<tensor> flowing;
    found.sums.resize(m->losses().size());
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      const segment range(m, cuts[s], cuts[s + 1]);
      for (const auto id : range.fed())
        flowing.push_back(m->value(id).name == "input" ? x : labels);
      segment_call call{.mode = mode, .info = {.samples = 2, .counts = {2}}};
      call.observe = [&](const layer_observation& o) {
        found.layers.push_back(m->layers()[static_cast<std::size_t>(o.layer)].name);
      };
      segment_activations kept;
      segment_losses losses;
      flowing = range.forward(ops, call, std::move(flowing), drawn_weights(ops, range), {},
                              mode == phase::training ? &kept : nullptr, &losses);
      for (std::size_t i = 0; i < losses.size(); ++i) {
        if (!losses[i].sums) continue;
        found.sums[static_cast<std::size_t>(range.losses()[i])] = true;
        found.loss.push_back(*losses[i].sums.data<double>());
      }
      for (std::size_t i = 0; i < flowing.size(); ++i)
        if (!flowing[i]) found.sent_none.push_back(m->value(range.outputs()[i]).name);
    }
  });
  return found;
}

TEST(EvaluatedLayers, WhatOnlyTrainingLossesNeedIsLeftOut) {
  const auto m = network(true);
  const auto found = evaluate(m, {});
  EXPECT_THAT(found.layers, ElementsAre("trunk", "relu", "head"));
  EXPECT_THAT(found.sums, ElementsAre(true, false));
  EXPECT_THAT(evaluate(network(false), {}).sums, ElementsAre(true, true));
  EXPECT_THAT(evaluate(m, {}, phase::training).sums, ElementsAre(true, true));
}

TEST(EvaluatedLayers, TheLossThatIsLeftKeepsItsBitsWhereverTheCutsAre) {
  const auto m = network(true);
  const auto both = evaluate(network(false), {}).loss;
  const int layers = static_cast<int>(m->layers().size());
  for (int a = 1; a < layers; ++a) {
    SCOPED_TRACE(a);
    const auto found = evaluate(m, {a});
    ASSERT_EQ(found.loss.size(), 1U);
    EXPECT_EQ(found.loss[0], both.front());
  }
}

TEST(EvaluatedLayers, WhatNobodyReadsDoesNotCrossACut) {
  const auto m = network(true);
  EXPECT_THAT(evaluate(m, {1}).sent_none, ElementsAre()) << "the trunk's output is read by both";
  EXPECT_THAT(evaluate(m, {2}).sent_none, ElementsAre("aux.fc"));
  EXPECT_THAT(evaluate(m, {1, 2, 3}).sent_none, ElementsAre("aux.fc", "aux.relu"));
}

TEST(EvaluatedLayers, AFirstLossIsEvaluatedThoughItServesTrainingAlone) {
  model_builder b("net");
  const auto labels = b.input("labels", dtype::i64, {}, {.below = 3});
  const auto head =
      b.add("head", layers::linear({.in_features = 4, .out_features = 3}), {b.input("input", dtype::f32, {4})});
  b.loss("loss", losses::cross_entropy(), {head, labels}, {.training_only = true});
  const auto m = std::make_shared<const model>(b.build());
  EXPECT_THAT(evaluate(m, {}).sums, ElementsAre(true));
}

} // namespace
} // namespace penstock::testing
