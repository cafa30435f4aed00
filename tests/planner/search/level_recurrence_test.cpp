// One level's recurrence against all pipelines, on costs that need not be monotone.
#include "planner/search/level_recurrence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace penstock::planner {
namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Stages cost their work over the parts, or a random communication where that is more; one in ten does not fit.
level_costs random_costs(std::mt19937_64& random, int states, int parts) {
  std::uniform_real_distribution<double> any(0, 1);
  level_costs c{states, parts};
  c.limit = infinity;
  c.at_least.emplace_back(1, 0.0);
  for (int s = 1; s < states; ++s)
    c.at_least[0].push_back(c.at_least[0].back() + any(random));
  c.stage.assign(at(parts) * at(states) * at(states), infinity);
  for (int m = 1; m <= parts; ++m) {
    for (int to = 0; to < states; ++to)
      for (int from = 0; from < to; ++from) {
        const auto work = (c.at_least[0][at(to)] - c.at_least[0][at(from)]) / m;
        if (any(random) < 0.9) c.stage[c.index(m, to) + at(from)] = std::max(work, 0.6 * any(random));
      }
    for (int s = 0; s < states; ++s) {
      c.inner_cut.push_back(any(random) / m);
      c.outer_cut.push_back(1.5 * any(random) / m);
    }
  }
  return c;
}

double seconds_of(const level_costs& c, const std::vector<level_stage>& stages) {
  double most = 0;
  for (const auto& s : stages) {
    const auto left = s.from == stages.front().from ? c.outer_at(s.parts, s.from) : c.inner_at(s.parts, s.from);
    const auto right = s.to == stages.back().to ? c.outer_at(s.parts, s.to) : c.inner_at(s.parts, s.to);
    most = std::max({most, c.stage_at(s.parts, s.from, s.to), left, right});
  }
  return most;
}

/// Calls `visit` with every pipeline from state to state on exactly so many parts.
void for_each_pipeline(std::vector<level_stage>& before, int from, int to, int parts,
                       const std::function<void(const std::vector<level_stage>&)>& visit) {
  if (from == to && parts == 0) visit(before);
  for (int cut = from + 1; cut <= to; ++cut)
    for (int m = 1; m <= parts; ++m) {
      before.push_back({from, cut, m});
      for_each_pipeline(before, cut, to, parts - m, visit);
      before.pop_back();
    }
}

double least_seconds(const level_costs& c, int from, int to, int parts,
                     const std::function<bool(const std::vector<level_stage>&)>& counts) {
  auto least = infinity;
  std::vector<level_stage> none;
  for_each_pipeline(none, from, to, parts, [&](const auto& stages) {
    if (counts(stages)) least = std::min(least, seconds_of(c, stages));
  });
  return least;
}

bool always(const std::vector<level_stage>&) {
  return true;
}

TEST(LevelRecurrence, IsTheLeastOfAllPipelinesOnEveryRange) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto c = random_costs(random, 3 + round % 6, 1 + round % 5);
    const auto best = level_recurrence(c).best_of_all_ranges();
    for (int from = 0; from < c.states; ++from)
      for (int to = from + 1; to < c.states; ++to) {
        const auto found = best[at(to) * at(c.states) + at(from)];
        EXPECT_EQ(found, least_seconds(c, from, to, c.parts, always)) << round << ": " << from << " to " << to;
        const auto pipeline = level_recurrence(c).best(from, to);
        EXPECT_EQ(pipeline.seconds, found);
        if (found < infinity)
          EXPECT_EQ(seconds_of(c, pipeline.stages), found);
        else
          EXPECT_TRUE(pipeline.stages.empty());
      }
  }
}

TEST(LevelRecurrence, ALimitHidesOnlyWhatCostsAsMuch) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    auto c = random_costs(random, 8, 4);
    const auto all = level_recurrence(c).best_of_all_ranges();
    c.limit = 0.7;
    const auto below = level_recurrence(c).best_of_all_ranges();
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(below[i], all[i] < c.limit ? all[i] : infinity);
  }
}

TEST(LevelRecurrence, HasTheBestOfEveryShape) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    const auto c = random_costs(random, 6, 4);
    for (int parts = 1; parts <= c.parts; ++parts) {
      const auto shapes = level_recurrence(c).best_by_shape(parts);
      const auto expect_among_them = [&](const std::function<bool(const std::vector<level_stage>&)>& counts) {
        const auto least = least_seconds(c, 0, 5, parts, counts);
        const auto is_it = [&](const level_pipeline& p) {
          return counts(p.stages) && p.seconds == least && seconds_of(c, p.stages) == least;
        };
        EXPECT_EQ(std::any_of(shapes.begin(), shapes.end(), is_it), least < infinity) << round << ", " << parts;
      };
      for (std::size_t count = 1; count <= at(parts); ++count)
        expect_among_them([&](const auto& stages) { return stages.size() == count; });
      for (int last = 1; last < parts; ++last)
        expect_among_them([&](const auto& stages) { return stages.size() == 2 && stages[1].parts == last; });
    }
  }
}

} // namespace
} // namespace penstock::planner
