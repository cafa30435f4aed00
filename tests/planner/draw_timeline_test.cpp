// The text picture, character by character.
#include "planner/draw_timeline.hpp"
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::planner::testing {
namespace {

constexpr const char* legend = "; 7> forward, <7 backward of minibatch 7, u update, . idle\n";

TEST(DrawTimeline, DrawsASimulatedPipeline) {
  const auto run = simulate(resolve_schedule(request("pipedream", {1, 1}, 1, 3)), {{2, 4}, {2, 4}});
  EXPECT_EQ(run.makespan, 24);
  EXPECT_EQ(draw_timeline(timeline_of(run), 24), "stage 0 |0>1>....<<<02><<<1..<<<2|\n"
                                                 "stage 1 |..0><<<01><<<12><<<2....|\n"
                                                 "time 0 to 24" +
                                                     std::string(legend));
}

TEST(DrawTimeline, NamesReplicasAndDrawsUpdates) {
  const std::vector<timeline_span> spans{{0, 0, action_kind::forward, 0, 0, 5},
                                         {0, 1, action_kind::backward, 12, 2, 8},
                                         {0, 1, action_kind::update, 3, 8, 10}};
  EXPECT_EQ(draw_timeline(spans, 10), "stage 0.0 |0>>>>.....|\n"
                                      "stage 0.1 |..<<<<12uu|\n"
                                      "time 0 to 10" +
                                          std::string(legend));
}

TEST(DrawTimeline, KeepsTheLastDigitsWhereAllDoNotFitAndAlwaysAnArrow) {
  const std::vector<timeline_span> spans{{0, 0, action_kind::forward, 1234, 0, 3},
                                         {0, 0, action_kind::backward, 1234, 3, 4},
                                         {0, 0, action_kind::forward, 9, 9, 10}};
  EXPECT_EQ(draw_timeline(spans, 10).substr(0, 21), "stage 0 |34><.....>|\n");
}

TEST(DrawTimeline, CutsToTheTimesAskedFor) {
  const std::vector<timeline_span> spans{{2, 0, action_kind::forward, 5, 0, 100},
                                         {2, 0, action_kind::backward, 5, 100, 200}};
  EXPECT_EQ(draw_timeline(spans, 95, 105, 10), "stage 2 |5>>>><<<<5|\ntime 95 to 105" + std::string(legend));
}

TEST(DrawTimeline, ACellShowsWhatFillsMostOfIt) {
  const std::vector<timeline_span> spans{{0, 0, action_kind::forward, 1, 0.0, 0.4},
                                         {0, 0, action_kind::forward, 2, 1.0, 1.6},
                                         {0, 0, action_kind::update, 0, 2.0, 2.3},
                                         {0, 0, action_kind::backward, 2, 2.3, 3.0},
                                         {0, 0, action_kind::forward, 9, 9.0, 10.0}};
  EXPECT_EQ(draw_timeline(spans, 10).substr(9, 10), ".><......>");
}

TEST(DrawTimeline, LeavesOutSpansWithoutALength) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(draw_timeline({{0, 0, action_kind::forward, 1, nan, 1}, {0, 0, action_kind::forward, 1, 2, 2}}, 10), "");
  EXPECT_EQ(draw_timeline(std::vector<timeline_span>{}, 10), "");
}

TEST(DrawTimeline, RefusesAWidthOrTimesItCannotDraw) {
  const std::vector<timeline_span> spans{{0, 0, action_kind::forward, 1, 0, 1}};
  EXPECT_EQ(refusal_of([&] { draw_timeline(spans, 9); }), "timeline width is 9, wanted 10 to 100000");
  EXPECT_EQ(refusal_of([&] { draw_timeline(spans, 1, 1, 20); }), "timeline from 1 to 1 is empty");
}

} // namespace
} // namespace penstock::planner::testing
