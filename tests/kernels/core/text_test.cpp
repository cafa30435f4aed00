// Nearest words, and lists of words.
#include "kernels/text.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

const std::vector<std::string> words{"vgg11", "vgg16", "resnet18", "lenet"};

TEST(Text, SuggestsTheNearestWord) {
  EXPECT_EQ(nearest("vgg61", words), "vgg16");
  EXPECT_EQ(nearest("VGG-16", words), "vgg16");
  EXPECT_EQ(nearest("res", words), "resnet18");
  EXPECT_EQ(nearest("vgg16x", words), "vgg16");
  EXPECT_EQ(nearest("esnet18", words), "resnet18");
  EXPECT_EQ(nearest("lenet", words), "lenet");
  EXPECT_EQ(did_you_mean("lente", words), " (did you mean 'lenet'?)");
}

TEST(Text, SuggestsNothingThatIsFar) {
  for (const auto* word : {"", "x", "transformer", "abcde"}) {
    EXPECT_EQ(nearest(word, words), "") << word;
    EXPECT_EQ(did_you_mean(word, words), "") << word;
  }
  EXPECT_EQ(nearest("lenet", {}), "");
}

TEST(Text, JoinsWordsEmptyOnesToo) {
  const std::vector<std::string> three{"a", "b", "c"};
  EXPECT_EQ(join(three, ", "), "a, b, c");
  EXPECT_EQ(join(std::span(three).first(1), ", "), "a");
  EXPECT_EQ(join({}, ", "), "");
  const std::vector<std::string> gaps{"", "b", ""};
  EXPECT_EQ(join(gaps, ","), ",b,");
}

TEST(Text, ControlsAndStrayBytesAreWrittenOutAndTheRestStays) {
  EXPECT_EQ(printable("plain, \"quoted\" \\ text"), "plain, \"quoted\" \\ text");
  EXPECT_EQ(printable("Stra\u00dfe \u4e2d\u6587 \U0001f642"), "Stra\u00dfe \u4e2d\u6587 \U0001f642");
  EXPECT_EQ(printable("a\nb\tc\rd"), R"(a\nb\tc\rd)");
  EXPECT_EQ(printable("\x1b[31mred\x7f"), R"(\u001b[31mred\u007f)");
  EXPECT_EQ(printable("\u009b31m \u2028 \u202e"), R"(\u009b31m \u2028 \u202e)"); // as controls outside ASCII
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), R"(a\u0000b)");
}

TEST(Text, WhatIsNoUtf8IsWrittenOutByteByByte) {
  EXPECT_EQ(printable("\xff\xfe"), R"(\xff\xfe)");
  EXPECT_EQ(printable("\xc3"), R"(\xc3)");                 // cut
  EXPECT_EQ(printable("\xc0\xaf"), R"(\xc0\xaf)");         // '/' the long way
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)"); // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");
  EXPECT_EQ(printable("\xe4\xb8z"), R"(\xe4\xb8z)");
}

TEST(Text, SeveralLinesKeepTheirEndsAndTabs) {
  EXPECT_EQ(printable_lines("a\tb\n\x1b]0;title\x07\n"), "a\tb\n\\u001b]0;title\\u0007\n");
}

TEST(Text, WhatIsLongLosesItsMiddleButNoPartOfACharacter) {
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
  EXPECT_EQ(shortened("0123456789a", 10), "01234...9a");
  for (std::size_t most = 8; most < 40; ++most) {
    std::string letters;
    for (int i = 0; i < 400; ++i)
      letters += i % 3 == 0 ? "\u00e4" : i % 3 == 1 ? "\x01" : "\U0001f642";
    for (const std::size_t size : {letters.size(), std::size_t{41}, std::size_t{57}}) {
      const auto text = shortened(std::string_view(letters).substr(0, size), most);
      EXPECT_LE(text.size(), most);
      EXPECT_EQ(printable(text), text);
      EXPECT_NE(text.find("..."), std::string::npos);
    }
  }
  EXPECT_EQ(in_quotes("x"), "'x'");
  EXPECT_EQ(in_quotes(std::string(1 << 20, 'x')).size(), 82U);
}

TEST(Text, AMessageLeavesAsOneLineOfBoundedLength) {
  EXPECT_EQ(one_line("a file: corrupt\n"), "a file: corrupt");
  EXPECT_EQ(one_line("first\nsecond"), R"(first\nsecond)");
  const auto line = one_line("begin " + std::string(100'000, '\n') + " end");
  EXPECT_LE(line.size(), 500U);
  EXPECT_TRUE(line.starts_with("begin "));
  EXPECT_TRUE(line.ends_with(" end"));
}

TEST(Text, AWordOfAMegabyteIsNobodysSlip) {
  EXPECT_EQ(nearest(std::string(1 << 20, 'v'), words), "");
}

} // namespace
} // namespace penstock
