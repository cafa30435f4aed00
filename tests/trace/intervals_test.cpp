// Sections against the plainest arithmetic on small numbers.
#include "tools/trace/intervals.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace penstock::actors {
namespace {

using sections = std::vector<time_section>;

/// Every nanosecond of them.
std::set<std::int64_t> moments_of(const sections& list) {
  std::set<std::int64_t> all;
  for (const auto& [begin, end] : list)
    for (auto t = begin; t < end; ++t)
      all.insert(t);
  return all;
}

sections any_sections(std::mt19937& random) {
  sections list;
  for (auto count = random() % 8; count > 0; --count) {
    const auto begin = static_cast<std::int64_t>(random() % 40);
    list.emplace_back(begin, begin + static_cast<std::int64_t>(random() % 9) - 1);
  }
  return list;
}

TEST(Intervals, AgreeWithCountingEveryMoment) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto raw = any_sections(random);
    const auto a = united(raw);
    const auto b = united(any_sections(random));
    const auto in_a = moments_of(a);
    const auto in_b = moments_of(b);
    EXPECT_EQ(moments_of(raw), in_a);
    EXPECT_EQ(length_of(a), static_cast<std::int64_t>(in_a.size()));
    std::set<std::int64_t> both;
    std::set<std::int64_t> only_a;
    for (const auto t : in_a)
      (in_b.contains(t) ? both : only_a).insert(t);
    EXPECT_EQ(moments_of(common(a, b)), both);
    EXPECT_EQ(moments_of(without(a, b)), only_a);
    EXPECT_EQ(length_of(common(a, b)) + length_of(without(a, b)), length_of(a));
    for (std::size_t i = 1; i < a.size(); ++i)
      EXPECT_LT(a[i - 1].second, a[i].first);
    const auto begin = static_cast<std::int64_t>(random() % 50);
    const auto end = begin + static_cast<std::int64_t>(random() % 20);
    EXPECT_EQ(time_within(a, begin, end), length_of(common(a, united({{begin, end}}))));
  }
}

} // namespace
} // namespace penstock::actors
