// Node lists: the short form Slurm writes, and garbage.
#include "kernels/check.hpp"
#include "transport/launch/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

using testing::ElementsAre;

TEST(NodeList, ExpandsNamesRangesAndPadding) {
  EXPECT_THAT(expand_node_list("m2"), ElementsAre("m2"));
  EXPECT_THAT(expand_node_list("n[01-03,07],m2"), ElementsAre("n01", "n02", "n03", "n07", "m2"));
  EXPECT_THAT(expand_node_list("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(expand_node_list("n[008-010].lan"), ElementsAre("n008.lan", "n009.lan", "n010.lan"));
  EXPECT_THAT(expand_node_list("r[1-2]n[5,7]"), ElementsAre("r1n5", "r1n7", "r2n5", "r2n7"));
}

TEST(NodeList, KeepsTheOrderItIsGiven) {
  EXPECT_THAT(expand_node_list("b,a[3,1]"), ElementsAre("b", "a3", "a1"));
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* list : {"",
                           ",",
                           "a,",
                           ",a",
                           "a,,b",
                           "n[",
                           "n]",
                           "n[]",
                           "n[1",
                           "n1]",
                           "n[1-]",
                           "n[-1]",
                           "n[2-1]",
                           "n[1-x]",
                           "n[a]",
                           "n[[1]]",
                           "n[1,]",
                           "n[1-2-3]",
                           "n[1 ]",
                           "n[0-4294967295]",
                           "n[99999999999999999999]",
                           "a[0-999]b[0-999]"})
    EXPECT_THROW(expand_node_list(list), usage_error) << list;
}

TEST(NodeList, RefusesMoreNodesThanThereAre) {
  EXPECT_EQ(expand_node_list("n[0-65535]").size(), 65536U);
  EXPECT_THROW(expand_node_list("n[0-65535],m"), usage_error);
  EXPECT_THROW(expand_node_list(std::string(2'000'000, '[')), usage_error);
}

} // namespace
} // namespace penstock::transport
