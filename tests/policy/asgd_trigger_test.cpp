// AWD-LSTM's non-monotone trigger.
#include "actors/policy/asgd_trigger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

namespace penstock::actors {
namespace {

// Evaluations after 10, 20, ... minibatches; where it switches, -1: not at all.
std::int64_t switch_after(std::int64_t patience, std::initializer_list<double> losses) {
  asgd_trigger trigger(patience);
  std::int64_t step = 0, switched = -1;
  for (const double loss : losses)
    if (trigger.take(loss, step += 10)) {
      EXPECT_EQ(switched, -1) << "once";
      switched = step;
    }
  EXPECT_EQ(trigger.seen().switched_at, switched);
  return switched;
}

TEST(AsgdTrigger, WaitsForALossWorseThanTheBestOfAllButTheLastFew) {
  EXPECT_EQ(switch_after(5, {9, 8, 7, 6, 5, 4, 3, 2, 1}), -1);
  EXPECT_EQ(switch_after(2, {5, 4, 4.5, 4.4, 4.1}), 50) << "4.1 is worse than 4, which has two behind it";
  EXPECT_EQ(switch_after(2, {5, 4, 4.5, 4.4, 4}), -1) << "as good is not worse";
  EXPECT_EQ(switch_after(3, {1, 9, 9, 9, 9}), 50) << "the first three before are too few";
  EXPECT_EQ(switch_after(1, {1, 2}), -1);
  EXPECT_EQ(switch_after(1, {1, 2, 2}), 30);
}

TEST(AsgdTrigger, IsThePublishedRuleWordForWord) {
  // len(best_val_loss) > nonmono and val_loss > min(best_val_loss[:-nonmono])
  const std::vector<double> losses{5.1, 4.9, 4.7, 4.8, 4.75, 4.72, 4.71, 4.69, 4.74, 4.7};
  constexpr std::size_t nonmono = 5;
  asgd_trigger trigger(nonmono);
  std::vector<double> best;
  bool over = false;
  for (const double loss : losses) {
    const bool wanted = !over && best.size() > nonmono &&
                        loss > *std::min_element(best.begin(), best.end() - static_cast<std::ptrdiff_t>(nonmono));
    EXPECT_EQ(trigger.take(loss, 1), wanted) << loss;
    over = over || wanted;
    best.push_back(loss);
  }
  EXPECT_TRUE(over);
}

TEST(AsgdTrigger, ResumesWhereItWas) {
  asgd_trigger first(2), second(2);
  for (const double loss : {5.0, 4.0, 4.5})
    EXPECT_FALSE(first.take(loss, 1));
  second.resume(first.seen());
  EXPECT_EQ(second.bar(), 5);
  EXPECT_FALSE(second.take(4.4, 40));
  EXPECT_TRUE(second.take(4.1, 50));
  first.resume(second.seen());
  EXPECT_FALSE(first.take(100, 60)) << "it has switched";
  EXPECT_EQ(first.seen().losses.size(), 5U);
}

} // namespace
} // namespace penstock::actors
