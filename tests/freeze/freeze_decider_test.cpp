// Decisions from what an interval showed, and what is carried from one to the next.
#include "actors/freeze/freeze_decider.hpp"
#include "actors/freeze/freeze_policies.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::actors {
namespace {

// Units a, b and c of one product and one activation each; the last product is the head.
model chain() {
  model_builder b("chain", {4, 1, 1});
  auto x = b.add("flatten", layers::flatten(), {b.input()});
  for (const char* name : {"a", "b", "c", "head"}) {
    x = b.add(name, layers::linear({.in_features = 4, .out_features = 4}), {x});
    x = b.add(std::string(name) + "_relu", layers::relu(), {x});
  }
  return b.build(x);
}

gradient_sums sums(double a, double b, double c) {
  return {
      {"a.weight", {a, 2}}, {"a.bias", {0, 2}}, {"b.weight", {b, 2}}, {"c.weight", {c, 2}}, {"head.weight", {1, 2}}};
}

class asks final : public freeze_policy {
public:
  explicit asks(int depth) : depth_(depth) {}
  std::string text() const override { return "asks"; }
  int depth(const freeze_statistics&) const override { return depth_; }

private:
  int depth_;
};

TEST(FreezeDecider, NormsAreRootMeanSquaresOverTheIntervalsUpdates) {
  const auto net = chain();
  freeze_decider decider(net, gradient_norm_policy(0.9), {});
  decider.add_losses(6, 2);
  decider.add_gradients({{"a.weight", {3, 1}}, {"a.bias", {4, 1}}});
  decider.add_gradients({{"a.weight", {5, 1}}, {"a.bias", {4, 1}}, {"b.weight", {18, 2}}});
  const auto made = decider.decide({.step = 2, .epochs = 0.5, .learning_rate = 0.1});
  ASSERT_EQ(made.seen.units.size(), 3U);
  EXPECT_DOUBLE_EQ(made.seen.units[0].gradient_norm, std::sqrt(8.0 / 2 + 8.0 / 2));
  EXPECT_DOUBLE_EQ(made.seen.units[0].layers.at(0).gradient_norm, std::sqrt(8.0));
  EXPECT_EQ(made.seen.units[0].parameters, 20);
  EXPECT_DOUBLE_EQ(made.seen.units[1].gradient_norm, 3);
  EXPECT_TRUE(std::isnan(made.seen.units[2].gradient_norm));
  EXPECT_EQ(made.seen.training_loss, 3);
  EXPECT_EQ(made.depth, 1) << "units count from 1: the first has the least norm and freezes";
  EXPECT_EQ(made.frozen_until, "b");
  EXPECT_EQ(text_of(made), "1 of 3 units frozen, all before b after step 2 (gradient-norm:alpha=0.9 asked for 1)");
}

TEST(FreezeDecider, EveryIntervalBeginsAnewAndRemembersTheNormsBefore) {
  const auto net = chain();
  freeze_decider decider(net, percentile_policy(50), {});
  decider.add_gradients(sums(8, 8, 8));
  decider.add_losses(4, 1);
  decider.add_evaluation(2);
  EXPECT_EQ(decider.decide({.step = 1, .epochs = 1}).depth, 0);
  decider.add_gradients(sums(7, 5, 3));
  const auto second = decider.decide({.step = 2, .epochs = 2});
  EXPECT_EQ(second.number, 2);
  EXPECT_EQ(second.seen.interval, 2);
  EXPECT_EQ(second.seen.units[0].norm_before, 2);
  EXPECT_TRUE(std::isnan(second.seen.training_loss));
  EXPECT_TRUE(std::isnan(second.seen.validation_loss));
  EXPECT_EQ(second.depth, 1);
}

TEST(FreezeDecider, AThawBeginsTheCurveAnewAndMeasuresByTheLossThen) {
  const auto net = chain();
  freeze_decider decider(net, schedule_policy(0.5), parse_freeze_guards("thaw-worse=0.1"));
  std::vector<int> depths;
  for (const double loss : {2.0, 1.0, 1.5, 1.5, 1.6, 1.7}) {
    decider.add_evaluation(loss);
    depths.push_back(
        decider.decide({.step = static_cast<std::int64_t>(depths.size()) + 1, .learning_rate = 0.1}).depth);
  }
  EXPECT_EQ(depths, (std::vector{2, 3, 0, 2, 3, 0}));
  EXPECT_EQ(decider.seen().interval, 0);
  EXPECT_EQ(decider.seen().best_validation, 1.7);
  EXPECT_TRUE(std::isnan(decider.seen().rate_at_freeze));
}

TEST(FreezeDecider, TheRateAtTheFreezeIsThatOfTheLastOneThatFroze) {
  const auto net = chain();
  freeze_decider decider(net, schedule_policy(0.5), parse_freeze_guards("thaw-rate"));
  decider.add_evaluation(1.0);
  EXPECT_EQ(decider.decide({.step = 1, .learning_rate = 0.2}).depth, 2);
  EXPECT_EQ(decider.seen().best_validation, 1.0);
  EXPECT_EQ(decider.decide({.step = 2, .learning_rate = 0.1}).depth, 3);
  EXPECT_EQ(decider.decide({.step = 3, .learning_rate = 0.1}).depth, 3);
  const auto thawed = decider.decide({.step = 4, .learning_rate = 0.15});
  EXPECT_TRUE(thawed.thaws);
  EXPECT_EQ(thawed.seen.rate_at_freeze, 0.1);
  EXPECT_TRUE(std::isnan(decider.seen().best_validation)) << "of what was trained before; no evaluation came since";
  EXPECT_EQ(thawed.frozen_until, "");
  EXPECT_EQ(text_of(thawed),
            "thawed after step 4 (schedule:alpha=0.5 asked for 3); thaw-rate: the rate is 0.15, at the "
            "freeze it was 0.1");
}

TEST(FreezeDecider, StopsBeforeATiedTensorAndSaysSo) {
  model_builder b("tied", {4, 1, 1});
  auto x = b.add("flatten", layers::flatten(), {b.input()});
  for (const char* name : {"a", "b", "c"})
    x = b.add(name, layers::linear({.in_features = 4, .out_features = 4}), {x});
  x = b.add("head", layers::linear({.in_features = 4, .out_features = 4}), {x}, {{"weight", "b.weight"}});
  const auto net = b.build(x);
  freeze_decider decider(net, std::make_shared<asks>(3), {});
  decider.add_gradients(sums(1, 1, 1));
  const auto made = decider.decide({.step = 1});
  EXPECT_EQ(made.asked, 3);
  EXPECT_EQ(made.depth, 1);
  EXPECT_EQ(made.why, "b.weight is used by active layers too: the depth stops before it");
}

TEST(FreezeDecider, AResumedOneDecidesAsTheOneThatWentOn) {
  const auto net = chain();
  freeze_decider one(net, percentile_policy(50), {});
  one.add_gradients(sums(8, 8, 8));
  one.decide({.step = 1});
  one.add_gradients(sums(4, 3, 2));
  freeze_decider other(net, percentile_policy(50), {});
  other.resume(one.seen());
  for (auto* decider : {&one, &other})
    decider->add_gradients(sums(3, 2, 1));
  const auto here = one.decide({.step = 2}), there = other.decide({.step = 2});
  EXPECT_EQ(here.depth, there.depth);
  EXPECT_EQ(here.number, there.number);
  EXPECT_EQ(here.seen.units[0].gradient_norm, there.seen.units[0].gradient_norm);
}

TEST(FreezeDecider, RefusesAnAnswerOutOfRangeAndAModelThatMayNotFreeze) {
  const auto net = chain();
  for (const int answer : {-1, 4}) {
    freeze_decider decider(net, std::make_shared<asks>(answer), {});
    EXPECT_THROW(decider.decide({.step = 1}), error);
  }
  model_builder b("short", {4, 1, 1});
  const auto x = b.add("flatten", layers::flatten(), {b.input()});
  const auto small = b.build(b.add("only", layers::linear({.in_features = 4, .out_features = 4}), {x}));
  EXPECT_THROW(freeze_decider(small, schedule_policy(0.5), {}), usage_error);
}

} // namespace
} // namespace penstock::actors
