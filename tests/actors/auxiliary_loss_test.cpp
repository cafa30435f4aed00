// A loss that serves training alone, with layers of its own in other stages than what it reads: evaluations leave it
// out, on any number of stages and ranks alike.
#include "actors/made_up_data.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

using actors::executor_kind;

// trunk, aux.fc, aux.head, relu, head.
std::shared_ptr<const model> network() {
  model_builder b("net");
  const auto x = b.input("input", dtype::f32, {6});
  const auto labels = b.input("labels", dtype::i64, {}, {.below = 3});
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, value_id from) {
    return b.add(name, layers::linear({.in_features = in, .out_features = out}), {from});
  };
  const auto trunk = linear("trunk", 6, 8, x);
  const auto aux = linear("aux.head", 8, 3, linear("aux.fc", 8, 8, trunk));
  const auto head = linear("head", 8, 3, b.add("relu", layers::relu(), {trunk}));
  b.loss("loss", losses::cross_entropy(), {head, labels});
  b.loss("aux", losses::cross_entropy(), {aux, labels}, {.weight = 0.5F, .training_only = true});
  return std::make_shared<const model>(b.build());
}

struct setting {
  std::vector<int> replicas;
  executor_kind executor = executor_kind::actors;
  int ranks = 1;
};

double evaluation_of(const setting& s, std::string& weights) {
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.microbatches = 2;
  o.replicas = s.replicas;
  o.executor = s.executor;
  o.steps = 3;
  const auto net = network();
  const actors::made_up_data samples(*net, 20), test(*net, 6, 2);
  const tiny_extras extras{.net = net, .train = &samples, .test = &test};
  const auto result = s.ranks > 1 ? train_tiny_ranks(o, s.ranks, extras) : train_tiny(o, extras);
  weights = result.summary.weights_sha256;
  return result.seen.evaluations.back().found.loss;
}

TEST(AuxiliaryLoss, AnEvaluationIsTheSameOnAnyStagesAndRanks) {
  std::string wanted_weights, weights;
  const double wanted = evaluation_of({{1}}, wanted_weights);
  EXPECT_GT(wanted, 0);
  for (const auto& s :
       {setting{{1, 1}}, setting{{1, 1, 1}}, setting{{1, 1, 1, 1}}, setting{{1, 1, 1, 1, 1}},
        setting{{1, 1, 1, 1, 1}, executor_kind::oracle}, setting{{1, 1, 1, 1}, executor_kind::actors, 4}}) {
    SCOPED_TRACE(::testing::PrintToString(s.replicas) + " on " + std::to_string(s.ranks));
    EXPECT_EQ(evaluation_of(s, weights), wanted);
    EXPECT_EQ(weights, wanted_weights);
  }
}

} // namespace
} // namespace penstock::testing
