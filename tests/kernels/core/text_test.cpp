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

} // namespace
} // namespace penstock
