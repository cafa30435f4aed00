// Tables and numbers for people.
#include "apps/runner/text_table.hpp"

#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

TEST(TextTable, SetsNumbersRightAndWordsLeft) {
  EXPECT_EQ(text_table({{"stage", "layers"}, {"0", "a .. b"}, {"10", "c"}}), "stage  layers\n"
                                                                             "    0  a .. b\n"
                                                                             "   10  c\n");
}

TEST(TextTable, BytesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(999), "999 B");
  EXPECT_EQ(byte_text(1000), "1 KB");
  EXPECT_EQ(byte_text(10'340), "10.3 KB");
  EXPECT_EQ(byte_text(999'600), "1 MB");
  EXPECT_EQ(byte_text(1'234'000'000), "1.23 GB");
}

TEST(TextTable, DurationsReadLikeAClock) {
  EXPECT_EQ(duration_text(0.26), "0.3 s");
  EXPECT_EQ(duration_text(41.6), "42 s");
  EXPECT_EQ(duration_text(187), "3:07");
  EXPECT_EQ(duration_text(3765), "1:02:45");
  EXPECT_EQ(duration_text(-1), "-");
  EXPECT_EQ(countdown_text(41.2), "0:42");
  EXPECT_EQ(countdown_text(3765), "1:02:45");
}

TEST(TextTable, AShareOfNothingIsADash) {
  EXPECT_EQ(percent_text(1, 8), "12.50 %");
  EXPECT_EQ(percent_text(0, 0), "-");
}

} // namespace
} // namespace penstock::apps
