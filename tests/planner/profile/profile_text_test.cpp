// Telling the kinds of profile apart.
#include "tests/planner/profile/example_profile.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

using testing::HasSubstr;

TEST(ReadProfile, JsonBeginsWithABraceAndAGraphWithANode) {
  EXPECT_EQ(read_profile("\xef\xbb\xbf\r\n \t" + to_json(example_profile()), "p").layers.size(), 4U);
  EXPECT_EQ(read_profile("node1 -- ReLU -- forward_compute_time=1, backward_compute_time=2, activation_size=3, "
                         "parameter_size=4\n",
                         "graph.txt")
                .layers.size(),
            1U);
}

TEST(ReadProfile, NothingAndGarbageAreRefusedByName) {
  EXPECT_THAT(refusal([] { read_profile("", "p"); }), HasSubstr("p: the file is empty"));
  EXPECT_THAT(refusal([] { read_profile("\xef\xbb\xbf \r\n", "p"); }), HasSubstr("p: the file is empty"));
  EXPECT_THAT(refusal([] {
                read_profile(std::string("\x7f"
                                         "ELF\x02\0\0\n\xff",
                                         9),
                             "p");
              }),
              HasSubstr("p: found a program, wanted a profile"));
  EXPECT_THAT(refusal([] { read_profile("[1, 2]", "p"); }), HasSubstr("p:1: the node is '[1, 2]'"));
}

} // namespace
} // namespace penstock::planner
