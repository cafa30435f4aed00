// Made-up data of models that hand a state from minibatch to minibatch, and of those that do not.
#include "actors/made_up_data.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"

#include <gtest/gtest.h>

namespace penstock::actors {
namespace {

model language_model(bool carries) {
  model_builder b("tiny");
  const auto time = b.extent("time", 3);
  const auto input = b.input("input", dtype::i64, {time}, {.below = 7});
  const auto labels = b.input("labels", dtype::i64, {time}, {.below = 4});
  const auto words = b.add("words", layers::embedding(7, 2), {input});
  const auto y = b.add("lstm", layers::lstm(4, {.carried = carries}), {words});
  b.loss("loss", losses::token_cross_entropy(), {y, labels}, {.counted_by = "tokens"});
  return b.build();
}

TEST(MadeUpData, HasColumnsInWholeRoundsWhereAModelCarriesAState) {
  const auto net = language_model(true);
  const made_up_data data(net, 21);
  const batching how{.batch = 4, .column_blocks = 2};
  EXPECT_EQ(data.columns(how), 8);
  const auto list = data.minibatches(how);
  ASSERT_EQ(list->per_epoch(), 4) << "two rounds of two blocks";
  for (std::int64_t m = 0; m < 8; ++m) {
    const auto facts = list->facts(m);
    EXPECT_EQ(facts.epoch, m / 4);
    EXPECT_EQ(facts.samples, 4);
    EXPECT_EQ(facts.column, m % 2 * 4);
    EXPECT_EQ(facts.counts[1], 12);
  }
  EXPECT_EQ(data.minibatches({.batch = 20, .column_blocks = 3})->per_epoch(), 3) << "one round at least";
}

TEST(MadeUpData, IsOfIndependentMinibatchesElse) {
  const auto net = language_model(false);
  const made_up_data data(net, 21);
  EXPECT_EQ(data.columns({.batch = 4}), 0);
  const auto list = data.minibatches({.batch = 4});
  EXPECT_EQ(list->per_epoch(), 6);
  EXPECT_EQ(list->facts(5).samples, 1);
}

} // namespace
} // namespace penstock::actors
