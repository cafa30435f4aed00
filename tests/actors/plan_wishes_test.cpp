// Wishes for another plan: each is answered once, whatever becomes of the run.
#include "actors/run/plan_wishes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace penstock::actors {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

planner::plan_ptr some_plan() {
  return std::make_shared<const planner::execution_plan>();
}

/// The answers of wishes, as they come.
class Answers {
public:
  plan_wish::answer next() {
    return [this](const std::string& refusal) {
      const std::lock_guard lock(mutex_);
      all_.push_back(refusal.empty() ? "took over" : refusal);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST(PlanWishes, AreTakenInOrderWithTheirStepsAndPlans) {
  Answers answers;
  plan_wishes wishes;
  EXPECT_FALSE(wishes.has_any());
  const auto first = some_plan();
  wishes.post(first, std::nullopt, answers.next());
  wishes.post(some_plan(), 40, answers.next());
  EXPECT_TRUE(wishes.has_any());
  auto taken = wishes.take();
  EXPECT_FALSE(wishes.has_any());
  EXPECT_THAT(wishes.take(), IsEmpty());
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_EQ(taken[0].plan(), first);
  EXPECT_EQ(taken[0].step(), std::nullopt);
  EXPECT_EQ(taken[1].step(), 40);
  taken[1].refuse("step 40 is past");
  taken[0].took_place();
  EXPECT_THAT(answers.all(), ElementsAre("step 40 is past", "took over"));
}

TEST(PlanWishes, AnAnswerIsGivenOnceWhoeverHoldsTheWishLast) {
  Answers answers;
  plan_wishes wishes;
  wishes.post(some_plan(), 1, answers.next());
  wishes.post(some_plan(), 2, answers.next());
  {
    auto taken = wishes.take();
    taken[0].took_place();
    taken[0].refuse("too late");
    auto moved = std::move(taken[1]);
    taken[0] = std::move(moved);
    EXPECT_THAT(answers.all(), ElementsAre("took over"));
  }
  EXPECT_THAT(answers.all(), ElementsAre("took over", HasSubstr("the run has ended")));
}

TEST(PlanWishes, WhatIsLeftAtTheEndAndWhatComesLaterIsRefused) {
  Answers answers;
  {
    plan_wishes wishes;
    wishes.post(some_plan(), 7, answers.next());
    wishes.close("nothing more is trained");
    EXPECT_FALSE(wishes.has_any());
    wishes.post(some_plan(), 8, answers.next());
    EXPECT_FALSE(wishes.has_any());
    EXPECT_THAT(answers.all(), ElementsAre("nothing more is trained", "nothing more is trained"));
  }
  {
    plan_wishes dropped;
    dropped.post(some_plan(), 9, answers.next());
  }
  EXPECT_THAT(answers.all().back(), HasSubstr("the run has ended"));
}

TEST(PlanWishes, AnAnswerThatThrowsEndsNobodyElse) {
  Answers answers;
  plan_wishes wishes;
  wishes.post(some_plan(), 1, [](const std::string&) { throw std::runtime_error("gone"); });
  wishes.post(some_plan(), 2, answers.next());
  EXPECT_NO_THROW(wishes.close("over"));
  EXPECT_THAT(answers.all(), ElementsAre("over"));
}

TEST(PlanWishes, ManyThreadsWishWhileTheRunTakesAndEnds) {
  constexpr int threads = 4;
  constexpr int each = 500;
  Answers answers;
  plan_wishes wishes;
  std::vector<std::thread> wishing;
  for (int t = 0; t < threads; ++t)
    wishing.emplace_back([&] {
      for (int i = 0; i < each; ++i)
        wishes.post(some_plan(), i + 1, answers.next());
    });
  std::size_t taken = 0;
  while (taken < threads * each / 2) {
    if (!wishes.has_any()) std::this_thread::yield();
    for (auto& wish : wishes.take()) {
      wish.took_place();
      ++taken;
    }
  }
  wishes.close("over");
  for (auto& t : wishing)
    t.join();
  EXPECT_THAT(answers.all(), SizeIs(threads * each));
}

} // namespace
} // namespace penstock::actors
