// Words for errors.
#include "planner/profile/wording.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace penstock::planner {
namespace {

TEST(Wording, QuotesStayOnOneLineAndShort) {
  EXPECT_EQ(planner::quoted("conv1"), "'conv1'");
  EXPECT_EQ(planner::quoted("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_EQ(planner::quoted(std::string(100, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(planner::quoted(std::string_view("\0", 1)), "'\\x00'");
}

TEST(Wording, QuotesKeepCharactersWhole) {
  EXPECT_EQ(planner::quoted("größe"), "'größe'");
  EXPECT_EQ(planner::quoted("\xc3"), "'\\xc3'");
  EXPECT_EQ(shown(std::string(59, 'x') + "ö!"), std::string(59, 'x') + "ö...");
}

TEST(Wording, NumbersReadBack) {
  EXPECT_EQ(number_text(16e9), "16000000000");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(1e30), "1e+30");
  EXPECT_EQ(number_text(std::nan("")), "nan");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  for (const auto value : {1.0 / 3, 5e-324, 1.7976931348623157e308, 9007199254740993.0})
    EXPECT_EQ(std::strtod(number_text(value).c_str(), nullptr), value);
}

TEST(Wording, SuggestsTheNearestOnlyWhereItIsNear) {
  EXPECT_EQ(suggestion("wdth", {"weight", "width"}), " (did you mean 'width'?)");
  EXPECT_EQ(suggestion("zebra", {"weight", "width"}), "");
  EXPECT_EQ(suggestion("", {}), "");
  EXPECT_EQ(suggestion(std::string(100000, 'w'), {"width"}), "");
}

TEST(Wording, AnOldFilesVocabularyOfNoneIsNotSaid) {
  EXPECT_EQ(options_as_said_now("bert vocabulary=0 classes=10 width=1"), "bert classes=10 width=1");
  EXPECT_EQ(options_as_said_now("vocabulary=0 vocabulary=0"), "vocabulary=0");
  for (const auto* said : {"bert vocabulary=50 classes=10", "bert vocabulary=01", "my_vocabulary=0 x", ""})
    EXPECT_EQ(options_as_said_now(said), said);
}

TEST(Wording, Utf8MayHoldControls) {
  EXPECT_TRUE(is_utf8("a\tb\r\n größe"));
  EXPECT_FALSE(is_utf8("a\xffz"));
}

TEST(Wording, PlainTextIsUtf8WithoutControls) {
  EXPECT_TRUE(is_plain_text("layer1.0 größe \xf0\x9f\x98\x80"));
  EXPECT_TRUE(is_plain_text(""));
  for (const auto* text : {"a\tb", "\x7f", "\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_FALSE(is_plain_text(text)) << planner::quoted(text);
}

} // namespace
} // namespace penstock::planner
