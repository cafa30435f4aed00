// Guards, each by its rule.
#include "actors/freeze/freeze_guards.hpp"
#include "kernels/check.hpp"
#include "tests/freeze/seen.hpp"

#include <gtest/gtest.h>

namespace penstock::actors {
namespace {

using test::seen;

freeze_statistics eight(int depth) {
  return seen({1, 1, 1, 1, 1, 1, 1, 1}, depth);
}

std::string refusal(std::string_view text) {
  try {
    parse_freeze_guards(text);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

TEST(FreezeGuards, NothingFreezesBeforeTheLeastEpochs) {
  const auto guards = parse_freeze_guards("min-epochs=2");
  auto s = eight(0);
  s.epochs = 1.5;
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).depth, 0);
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).why, "min-epochs: 1.5 of 2 are done");
  s.epochs = 2;
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).depth, 4);
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).why, "");
}

TEST(FreezeGuards, AFractionOfTheUnitsIsTheMost) {
  const auto guards = parse_freeze_guards("max-fraction=0.75");
  EXPECT_EQ(guard_depth(guards, eight(0), 5, not_seen).depth, 5);
  EXPECT_EQ(guard_depth(guards, eight(0), 8, not_seen).depth, 6);
  EXPECT_EQ(guard_depth(guards, eight(0), 8, not_seen).why, "max-fraction: 6 of 8 units");
  EXPECT_EQ(guard_depth(parse_freeze_guards("max-fraction=0.8"), eight(0), 8, not_seen).depth, 6) << "rounded down";
  EXPECT_EQ(guard_depth(parse_freeze_guards("max-fraction=3/8"), eight(0), 8, not_seen).depth, 3);
  EXPECT_EQ(guard_depth(guards, eight(7), 8, not_seen).depth, 7) << "a cap thaws nothing";
}

TEST(FreezeGuards, AnAnswerBelowTheDepthThawsNothing) {
  EXPECT_EQ(guard_depth({}, eight(5), 3, not_seen).depth, 5);
  EXPECT_FALSE(guard_depth({}, eight(5), 3, not_seen).thaws);
}

TEST(FreezeGuards, AWorseValidationLossThawsAll) {
  const auto guards = parse_freeze_guards("thaw-worse=0.1,max-fraction=0.5");
  auto s = eight(3);
  s.validation_loss = 2.15;
  EXPECT_EQ(guard_depth(guards, s, 4, 2).depth, 4) << "within a tenth of the best";
  s.validation_loss = 2.25;
  const auto thawed = guard_depth(guards, s, 4, 2);
  EXPECT_EQ(thawed.depth, 0);
  EXPECT_TRUE(thawed.thaws);
  EXPECT_EQ(thawed.why, "thaw-worse: the validation loss is 2.25, the best was 2");
  s.depth = 0;
  EXPECT_EQ(guard_depth(guards, s, 4, 2).depth, 4) << "nothing was frozen, so that is no reason";
}

TEST(FreezeGuards, WithoutAnEvaluationNothingIsWorse) {
  auto s = eight(3);
  EXPECT_EQ(guard_depth(parse_freeze_guards("thaw-worse=0"), s, 4, 2).depth, 4);
  s.validation_loss = 5;
  EXPECT_EQ(guard_depth(parse_freeze_guards("thaw-worse=0"), s, 4, not_seen).depth, 4);
}

TEST(FreezeGuards, ARateAboveThatOfTheFreezeThawsAll) {
  const auto guards = parse_freeze_guards("thaw-rate");
  auto s = eight(3);
  s.rate_at_freeze = 0.1F;
  s.learning_rate = 0.1;
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).depth, 4) << "the same rate, but for its last places";
  s.learning_rate = 0.2;
  EXPECT_TRUE(guard_depth(guards, s, 4, not_seen).thaws);
  EXPECT_EQ(guard_depth(guards, s, 4, not_seen).why, "thaw-rate: the rate is 0.2, at the freeze it was 0.1");
  EXPECT_FALSE(guard_depth({}, s, 4, not_seen).thaws) << "only where it is asked for";
}

TEST(FreezeGuards, AreReadAndWrittenAsText) {
  for (const char* text : {"off", "min-epochs=2", "min-epochs=0.5,max-fraction=0.75,thaw-worse=0.05,thaw-rate"})
    EXPECT_EQ(text_of(parse_freeze_guards(text)), text);
  EXPECT_EQ(parse_freeze_guards(""), freeze_guards{});
  EXPECT_EQ(refusal("min-epoch=2"), "no guard 'min-epoch' (did you mean 'min-epochs'?); there are min-epochs, "
                                    "max-fraction, thaw-worse, thaw-rate");
  EXPECT_EQ(refusal("min-epochs=-1"), "min-epochs is '-1', wanted a number of at least 0");
  EXPECT_EQ(refusal("min-epochs"), "min-epochs is '', wanted a number of at least 0");
  EXPECT_EQ(refusal("max-fraction=0"), "max-fraction is '0', wanted more than 0 and at most 1");
  EXPECT_EQ(refusal("max-fraction=1.1"), "max-fraction is '1.1', wanted more than 0 and at most 1");
  EXPECT_EQ(refusal("thaw-worse=some"), "thaw-worse is 'some', wanted a number of at least 0");
  EXPECT_EQ(refusal("thaw-rate=2"), "found 'thaw-rate=2', wanted thaw-rate alone");
  EXPECT_EQ(refusal("thaw-rate,,"), "no guard ''; there are min-epochs, max-fraction, thaw-worse, thaw-rate");
}

} // namespace
} // namespace penstock::actors
