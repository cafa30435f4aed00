// The credits' formulas and the --in-flight option.
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using counts = std::vector<std::int64_t>;
using mode = in_flight_spec::mode;

TEST(Credits, TightOnesArePipedreamsVersionCounts) {
  EXPECT_EQ(tight_credits({1, 1, 1, 1}), (counts{4, 3, 2, 1}));
  EXPECT_EQ(tight_credits({15, 1}), (counts{2, 1}));
  EXPECT_EQ(tight_credits({2, 1, 1}), (counts{2, 2, 1}));
  EXPECT_EQ(tight_credits({1, 2, 1}), (counts{4, 2, 1}));
  EXPECT_EQ(tight_credits({8}), (counts{1}));
}

TEST(Credits, FullOnesFollowTheFormulaAndLeaveStraightPipelinesTight) {
  EXPECT_EQ(full_credits({1, 1, 1, 1}), (counts{4, 3, 2, 1}));
  EXPECT_EQ(full_credits({1, 2, 1}), (counts{6, 2, 1}));
  EXPECT_EQ(full_credits({2, 1}), (counts{2, 1}));
  // A link that takes half a period each way costs one more in flight per hop: 2 V - 1.
  EXPECT_EQ(full_credits({1, 1, 1, 1}, 0.5), (counts{7, 5, 3, 1}));
  EXPECT_NE(refusal_of([] { full_credits({1, 1}, -1); }), "");
}

TEST(Credits, ParsesTheOption) {
  EXPECT_EQ(parse_in_flight("tight").kind, mode::tight);
  EXPECT_EQ(parse_in_flight("double").kind, mode::doubled);
  EXPECT_EQ(parse_in_flight("full").kind, mode::full);
  EXPECT_EQ(parse_in_flight("3").given, (counts{3}));
  const auto spec = parse_in_flight("4,2,1");
  EXPECT_EQ(spec.kind, mode::given);
  EXPECT_EQ(spec.given, (counts{4, 2, 1}));
}

TEST(Credits, RefusesABrokenOption) {
  const auto refusal = [](std::string_view text) { return refusal_of([&] { parse_in_flight(text); }); };
  EXPECT_EQ(refusal("tigth"), "in-flight 'tigth': wanted tight, double, full or one count per stage such as 3,2,1");
  for (const auto* text : {"", "3,", ",3", "3,,1", "3 ,1", "2.5", "0x3", "+3"})
    EXPECT_NE(refusal(text), "") << text;
  EXPECT_EQ(refusal("2,0"), "in-flight of stage 1 is 0, wanted at least 1");
  EXPECT_EQ(refusal("-1"), "in-flight of stage 0 is -1, wanted at least 1");
  EXPECT_EQ(refusal("3000000000"), "in-flight of stage 0 is 3000000000, wanted at most 2147483647");
  EXPECT_EQ(refusal("1,99999999999999999999"), "in-flight of stage 1 is out of range in '1,99999999999999999999'");
}

} // namespace
} // namespace penstock::planner::testing
