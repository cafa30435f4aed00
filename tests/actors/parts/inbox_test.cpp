// Messages by key within the credits, and tensors checked against the model.
#include "actors/stage/inbox.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/support/microbatch.hpp"

#include <gmock/gmock.h>

namespace penstock::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

inputs_msg message(std::int64_t since_drain, std::int32_t microbatch = 0, std::int64_t minibatch = 100) {
  inputs_msg m;
  m.key = {.minibatch = minibatch + since_drain, .since_drain = since_drain, .microbatch = microbatch};
  m.info.samples = since_drain;
  return m;
}

using inbox = keyed_inbox<inputs_msg>;

TEST(KeyedInbox, IsAskedByKeyWhateverTheOrderOfArrival) {
  inbox box;
  for (const int i : {2, 0, 1})
    box.put(message(i), 3, "inputs");
  box.put(message(0, 1), 4, "inputs");
  EXPECT_TRUE(box.has(0, 1));
  EXPECT_FALSE(box.has(1, 1));
  EXPECT_EQ(box.take(0, 0).info.samples, 0);
  EXPECT_EQ(box.take(1, 0).info.samples, 1);
  EXPECT_FALSE(box.has(1, 0));
  EXPECT_EQ(box.size(), 2U);
}

TEST(KeyedInbox, FindsTheFirstKeyThatIsReady) {
  inbox box;
  for (const int i : {4, 2, 3})
    box.put(message(i), 3, "inputs");
  EXPECT_EQ(box.find_if([](const inbox::key&) { return true; }), (inbox::key{2, 0}));
  EXPECT_EQ(box.find_if([](const inbox::key& k) { return k.first > 2; }), (inbox::key{3, 0}));
  EXPECT_EQ(box.find_if([](const inbox::key&) { return false; }), std::nullopt);
}

TEST(KeyedInbox, RefusesWhatComesTwice) {
  inbox box;
  box.put(message(0), 9, "activation");
  const auto twice = ThrowsMessage<error>("[message] the activation of minibatch 100, micro-batch 0 came twice");
  EXPECT_THAT([&] { box.put(message(0), 9, "activation"); }, twice) << "while it is held";
  box.put(message(1), 9, "activation");
  box.take(0, 0);
  EXPECT_THAT([&] { box.put(message(0), 9, "activation"); }, twice) << "and after it was taken";
  EXPECT_EQ(box.size(), 1U);
  EXPECT_EQ(box.take(1, 0).info.samples, 1);
}

TEST(KeyedInbox, RefusesWhatLiesBeyondTheCredits) {
  inbox box;
  box.put(message(0), 2, "gradient");
  box.put(message(1), 2, "gradient");
  EXPECT_THAT(
      [&] { box.put(message(2), 2, "gradient"); },
      ThrowsMessage<error>(
          "[message] the gradient of minibatch 102, micro-batch 0 came beyond the credits: 2 are held already"));
  box.take(0, 0);
  box.put(message(2), 2, "gradient");
}

TEST(KeyedInbox, ANewSegmentStartsKeysAgain) {
  inbox box;
  box.put(message(5), 9, "inputs");
  EXPECT_THAT([&] { box.restart(phase::training, "inputs"); }, ThrowsMessage<error>(HasSubstr("minibatch 105")))
      << "one is left over";
  box.take(5, 0);
  box.restart(phase::training, "inputs");
  box.put(message(0), 9, "inputs");
  EXPECT_TRUE(box.has(0, 0));
}

TEST(KeyedInbox, EvaluationTakesKeysInAnyOrder) {
  inbox box;
  box.restart(phase::evaluation, "inputs");
  box.put(message(3), 9, "inputs");
  box.take(3, 0);
  EXPECT_NO_THROW(box.put(message(1), 9, "inputs"));
}

class InModelOrder : public ::testing::Test {
public:
  InModelOrder() {
    model_builder b("net", {2, 4, 4});
    const auto a = b.add("a", layers::relu(), {b.input()});
    const auto skip = b.add("skip", layers::relu(), {b.input()});
    const auto sum = b.add("sum", layers::add(), {a, skip});
    net = std::make_shared<const model>(b.build(b.add("flat", layers::flatten(), {sum})));
    wanted = {a, skip};
  }
  tensor of(shape dims, dtype type = dtype::f32) {
    return tensor::allocate(pool, type, std::move(dims), memory_use::scratch);
  }
  std::vector<tensor> order(std::vector<named_tensor> got, bool none_allowed = false) const {
    return in_model_order(*net, wanted, got, info_of(3, 3), none_allowed);
  }
  memory_pool pool;
  std::shared_ptr<const model> net;
  std::vector<value_id> wanted;
};

TEST_F(InModelOrder, SortsByName) {
  const auto a = of({3, 2, 4, 4});
  const auto skip = of({3, 2, 4, 4});
  const auto found = order({{"skip", skip}, {"a", a}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].raw(), a.raw());
  EXPECT_EQ(found[1].raw(), skip.raw());
  const auto named = with_names(*net, wanted, found);
  EXPECT_EQ(named[0].name, "a");
  EXPECT_EQ(named[1].name, "skip");
  EXPECT_EQ(total_bytes(named), 2 * 3 * 2 * 4 * 4 * 4);
  EXPECT_EQ(total_bytes({{"none", tensor{}}}), 0);
}

TEST_F(InModelOrder, RefusesAnotherNumberOfSamples) {
  EXPECT_THAT(
      [&] {
        order({{"a", of({3, 2, 4, 4})}, {"skip", of({2, 2, 4, 4})}});
      },
      ThrowsMessage<error>(HasSubstr("'skip' is F32 [2, 2, 4, 4]; the model has F32 [3, 2, 4, 4]")));
}

TEST_F(InModelOrder, RefusesMissingUnexpectedAndRepeatedNames) {
  const auto t = of({3, 2, 4, 4});
  EXPECT_THAT([&] { order({{"a", t}}); }, ThrowsMessage<error>("[message] 1 tensors came; the cut has 2"));
  EXPECT_THAT([&] { order({{"a", t}, {"b", t}}); }, ThrowsMessage<error>("[message] tensor 'skip' is missing"));
  EXPECT_THAT([&] { order({{"a", t}, {"a", t}}); }, ThrowsMessage<error>("[message] tensor 'skip' is missing"));
  EXPECT_THAT([&] { order({{"a", t}, {"skip", t}, {"skip", t}}); }, ThrowsMessage<error>(HasSubstr("3 tensors came")));
}

TEST_F(InModelOrder, RefusesAnotherShapeOrTypeButForTheBatch) {
  const auto good = of({3, 2, 4, 4});
  for (const auto& bad : {of({3, 2, 4, 5}), of({3, 4, 4}), of({3, 2, 4, 4, 1}), of({3, 2, 4, 4}, dtype::i32), of({})})
    EXPECT_THAT(
        [&] {
          order({{"a", good}, {"skip", bad}});
        },
        ThrowsMessage<error>(HasSubstr("tensor 'skip' is ")))
        << to_string(bad.dims());
  EXPECT_THAT(
      [&] {
        order({{"a", of({3, 1, 4, 4})}, {"skip", good}});
      },
      ThrowsMessage<error>("[message] tensor 'a' is F32 [3, 1, 4, 4]; the model has F32 [3, 2, 4, 4]"));
}

TEST_F(InModelOrder, LetsNoneThroughForGradientsOnly) {
  const auto t = of({3, 2, 4, 4});
  EXPECT_THAT([&] { order({{"a", {}}, {"skip", t}}); }, ThrowsMessage<error>("[message] tensor 'a' is empty"));
  EXPECT_FALSE(order({{"a", {}}, {"skip", t}}, true).at(0));
}

} // namespace
} // namespace penstock::actors
