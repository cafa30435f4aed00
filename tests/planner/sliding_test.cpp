// Facts slide: what is settled is forgotten, what lies ahead is kept however the ring turns.
#include "planner/sliding.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace penstock::planner::testing {
namespace {

TEST(Sliding, KeepsWhatAMapWouldKeep) {
  std::mt19937 random(1);
  sliding<int> facts; // 0: nothing yet, -1: settled
  std::map<std::int64_t, int> known;
  std::int64_t first = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto index = first + static_cast<std::int64_t>(random() % 20);
    const auto fact = random() % 2 == 0 ? -1 : static_cast<int>(random() % 100) + 1;
    facts.note(index, fact);
    known[index] = fact;
    if (random() % 3 == 0) {
      facts.settle([](int f) { return f == -1; });
      for (; known.contains(first) && known[first] == -1; ++first)
        known.erase(first);
    }
    ASSERT_EQ(facts.first(), first);
    const auto any = first + static_cast<std::int64_t>(random() % 40);
    ASSERT_EQ(facts.at(any), known.contains(any) ? known[any] : 0);
    ASSERT_LE(facts.size(), 20);
  }
  EXPECT_GT(first, 1000);
}

} // namespace
} // namespace penstock::planner::testing
