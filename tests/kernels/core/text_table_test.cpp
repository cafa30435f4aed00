// Tables that fit, and what becomes of those that do not.
#include "kernels/text_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

namespace penstock {
namespace {

using rows = std::vector<std::vector<std::string>>;
constexpr auto left = cell_side::left;
constexpr auto right = cell_side::right;

TEST(TextTable, IsAsWideAsItsCellsWhereThereIsRoom) {
  const rows cells{{"stage", "layers"}, {"0", "a .. b"}, {"10", "c"}};
  const std::string wanted = "stage  layers\n"
                             "    0  a .. b\n"
                             "   10  c\n";
  EXPECT_EQ(lay_out_table(cells, {{right, left}}), wanted);
  EXPECT_EQ(lay_out_table(cells, {{right, left}, "", 13}), wanted);
}

TEST(TextTable, BreaksTitlesBeforeCells) {
  EXPECT_EQ(lay_out_table({{"stage", "largest workspace", "layers"}, {"0", "12 MB", "conv1..fc3"}},
                          {{right, right, left}, "", 28}),
            "stage    largest  layers\n"
            "       workspace\n"
            "    0      12 MB  conv1..fc3\n");
}

TEST(TextTable, BreaksCellsOfWordsBehindSpacesCommasAndDots) {
  EXPECT_EQ(lay_out_table({{"stage", "layers"}, {"0", "features.0..features.16 and more"}}, {{right, left}, "", 24}),
            "stage  layers\n"
            "    0  features.0..\n"
            "       features.16 and\n"
            "       more\n");
}

TEST(TextTable, GoesOnBelowWhereColumnsHaveNoRoom) {
  EXPECT_EQ(lay_out_table({{"stage", "forward", "backward", "update"}, {"0", "1 ms", "2 ms", "3 ms"}},
                          {{right, right, right, right}, "", 24}),
            "stage  forward  backward\n"
            "    0     1 ms      2 ms\n"
            "\n"
            "stage  update\n"
            "    0    3 ms\n");
}

TEST(TextTable, CountsCharactersNotBytes) {
  EXPECT_EQ(lay_out_table({{"a", "b"}, {"\u00fc\u00fc", "c"}}, {{left, left}}), "a   b\n\u00fc\u00fc  c\n");
  for (const auto& line : {lay_out_table(
           {{"title"}, {"\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"}},
           {{left}, "", 12})})
    EXPECT_EQ(line.find("\xbc\n\xbc"), std::string::npos);
}

TEST(TextTable, OneThingIsNotCountedAsSeveral) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(5, "epoch"), "5 epochs");
  EXPECT_EQ(counted(2, "minibatch"), "2 minibatches");
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(938, "minibatch"), "938 minibatches");
}

TEST(TextTable, LinesAreFoldedBetweenWords) {
  const std::string two = "one two three four\nfive\n";
  EXPECT_EQ(fold_lines(two, 0), two);
  EXPECT_EQ(fold_lines(two, 18), two);
  EXPECT_EQ(fold_lines(two, 10), "one two\n  three\n  four\nfive\n");
  EXPECT_EQ(fold_lines("a-word-that-is-longer", 8), "a-word-t\n  hat-is\n  -longe\n  r\n");
  EXPECT_EQ(fold_lines("", 8), "");
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Whatever the cells: no line is longer than told, where a column and the first have room, and no letter is lost.
TEST(TextTable, FitsAndLosesNothing) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int round = 0; round < 2000; ++round) {
    const auto columns = static_cast<std::size_t>(pick(1, 12));
    table_layout layout{
        {}, std::string(static_cast<std::size_t>(pick(0, 2)), ' '), static_cast<std::size_t>(pick(60, 140))};
    rows cells(static_cast<std::size_t>(pick(2, 5)), std::vector<std::string>(columns));
    for (std::size_t c = 0; c < columns; ++c) {
      layout.sides.push_back(pick(0, 1) == 0 ? left : right);
      cells[0][c] = pick(0, 1) == 0 ? "title" : "longer title";
      for (std::size_t r = 1; r < cells.size(); ++r)
        for (int i = pick(0, layout.sides[c] == left ? 70 : 12); i > 0; --i)
          cells[r][c] += "abcdefgh ,./"[pick(0, 11)];
    }
    const auto text = lay_out_table(cells, layout);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      ASSERT_LE(characters(line), layout.columns) << text;
    std::string all;
    for (const auto& row : cells)
      for (std::size_t c = 1; c < columns; ++c)
        all += row[c];
    for (const char letter : std::string("abcdefgh,./"))
      ASSERT_GE(std::count(text.begin(), text.end(), letter), std::count(all.begin(), all.end(), letter)) << text;
  }
}

} // namespace
} // namespace penstock
