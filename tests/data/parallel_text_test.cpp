// Parallel text: both sides as a translation model reads them, few shapes, and files that are refused.
#include "apps/data/parallel_text.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/data/number_words.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace penstock::apps {
namespace {

using test::loaded;
using test::rows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct text_files {
  testing_support::temporary_folder folder;
  parallel_text_options options{.tokens = std::make_shared<translation_tokens>(std::make_shared<test::number_words>()),
                                .most_tokens = 10};

  std::string file(const std::string& name, const std::string& text) const {
    testing_support::write_file(folder / name, text);
    return (folder / name).string();
  }
  std::string pair_of(const std::string& source, const std::string& target) const {
    return file("a.en", source) + "," + file("a.es", target);
  }
};

// Of the numbers' ids 1, 2 and 3 are BOS, EOS and UNK, which translation has as 2, 3 and 1.
TEST(ParallelText, SidesAreWrappedShiftedAndPadded) {
  const text_files at;
  for (const auto& where :
       {at.file("t.tsv", "10 11 12\t20\r\n13\t21 22 x\n"), at.pair_of("10 11 12\n13\n", "20\r\n21 22 x")}) {
    const auto pair = open_parallel_text(where, at.options);
    EXPECT_EQ(pair.test, nullptr);
    EXPECT_THAT(pair.train->extents(), ElementsAre("source_time", "target_time"));
    EXPECT_THAT(pair.train->counts(), ElementsAre("samples", "tokens"));
    const auto list = pair.train->minibatches({.batch = 8, .training = false});
    ASSERT_EQ(list->per_epoch(), 1);
    const auto facts = list->facts(0);
    EXPECT_EQ(facts.counts[0], 2);
    EXPECT_EQ(facts.counts[1], 2 + 4) << "what counts of the target is its words and its end";
    EXPECT_EQ(facts.extents[0], 5);
    EXPECT_EQ(facts.extents[1], 5);
    const auto values = loaded(*pair.train, *list, 0);
    EXPECT_EQ(values.at("source"), (rows{{2, 10, 11, 12, 3}, {2, 13, 3, 0, 0}}));
    EXPECT_EQ(values.at("source_lengths"), (rows{{5}, {3}}));
    EXPECT_EQ(values.at("target_in"), (rows{{2, 20, 0, 0, 0}, {2, 21, 22, 1, 0}}));
    EXPECT_EQ(values.at("labels"), (rows{{20, 3, 0, 0, 0}, {21, 22, 1, 3, 0}}));
    EXPECT_EQ(loaded(*pair.train, *list, 0, 1, 1).at("labels"), (rows{{21, 22, 1, 3, 0}}));
  }
}

TEST(ParallelText, AByteOrderMarkIsNoText) {
  const text_files at;
  const auto pair = open_parallel_text(at.pair_of("\xef\xbb\xbf"
                                                  "10\n",
                                                  "\xef\xbb\xbf"
                                                  "20\n"),
                                       at.options);
  EXPECT_EQ(loaded(*pair.train, *pair.train->minibatches({}), 0).at("labels"), (rows{{20, 3, 0, 0, 0}}));
}

TEST(ParallelText, LongAndEmptyPairsAreLeftOutAndCounted) {
  const text_files at;
  const auto pair = open_parallel_text(
      at.file("t.tsv",
              "4 5 6 7 8 9 10 11\t4\n4\t4 5 6 7 8 9 10 11 12\n4 5 6 7 8 9 10 11 12\t5\n\t6\n7\t\n \t8\n9\t9\n"),
      at.options);
  EXPECT_EQ(pair.train->size(), 2) << "ten tokens with BOS and EOS are not too many";
  EXPECT_THAT(pair.train->description(), HasSubstr("2 pairs from " + (at.folder / "t.tsv").string() +
                                                   ", 2 of more than 10 tokens and 3 with an empty side left out"));
}

TEST(ParallelText, PartsAreFoundInFoldersAndLists) {
  const text_files at;
  at.file("train.tsv", "10\t20\n11\t21\n");
  at.file("valid.tsv", "12\t22\n");
  const auto parts = [&](const std::string& where) {
    const auto pair = open_parallel_text(where, at.options);
    return std::pair(pair.train->size(), pair.test ? pair.test->size() : 0);
  };
  const auto path = [&](const char* name) { return (at.folder / name).string(); };
  EXPECT_EQ(parts(at.folder.path().string()), std::pair(2L, 1L));
  EXPECT_EQ(parts(path("train.tsv") + "," + path("valid.tsv")), std::pair(2L, 1L));
  EXPECT_EQ(
      parts(at.pair_of("10\n11\n12\n", "1\n2\n3\n") + "," + at.file("b.en", "5\n") + "," + at.file("b.es", "6\n")),
      std::pair(3L, 1L));
  EXPECT_EQ(parts(at.file("with, comma.tsv", "10\t20\n")), std::pair(1L, 0L));
  EXPECT_THAT([&] { parts("a.en,b.es,c.en"); }, ThrowsMessage<usage_error>(HasSubstr("found 3 files, wanted a TSV")));
}

TEST(ParallelText, WhatIsNoPairIsRefusedWithItsPlace) {
  const text_files at;
  const auto refuses = [&](const std::string& where, const std::string& says) {
    EXPECT_THAT([&] { open_parallel_text(where, at.options); }, ThrowsMessage<error>(HasSubstr(says))) << says;
  };
  refuses(at.file("t.tsv", "4\t5\n6\n"), "t.tsv: line 2: found 1 columns, wanted a sentence and its translation");
  refuses(at.file("t.tsv", "4\t5\n\n"), "t.tsv: line 2: found 1 columns");
  refuses(at.file("t.tsv", "4\t5\t6\n"), "t.tsv: line 1: found 3 columns");
  refuses(at.file("t.tsv", "4\t5\n6\t\xff\n"), "t.tsv: line 2");
  refuses(at.pair_of("4\n5\n6\n", "4\n5\n"), "a.es: ends after line 2, wanted one for each line of");
  refuses(at.pair_of("4\n", "4\n\n"), "a.en: ends after line 1");
  refuses(at.pair_of("4\n5\n", "4\n\xc3(\n"), "a.es: line 2");
  refuses(at.pair_of("", ""), "found no pairs, wanted sentences");
  refuses(at.file("t.tsv", "\t5\n"), "found no pairs, 1 with an empty side left out, wanted");
  refuses(at.pair_of("4\n" + std::string((1 << 20) + 1, '7') + "\n", "4\n5\n"), "a.en: line 2: has more than");
  refuses((at.folder / "missing.en").string() + "," + (at.folder / "missing.es").string(), "missing.en");
  auto options = at.options;
  options.most_tokens = 2;
  EXPECT_THAT(
      [&] { open_parallel_text(at.pair_of("4\n", "5\n"), options); },
      ThrowsMessage<usage_error>(HasSubstr("a limit of 2 tokens, wanted more than the 2 around each sentence")));
}

// Numbers at random; the two sides of a pair are about equally long.
std::string random_pairs(int pairs) {
  std::mt19937 random(3);
  std::string text;
  const auto add_words = [&](unsigned long words) {
    for (unsigned long i = 0; i < words; ++i)
      text += std::to_string(4 + random() % 90) + (i + 1 < words ? " " : "");
  };
  for (int i = 0; i < pairs; ++i) {
    const auto words = 1 + random() % 40;
    add_words(words);
    text += '\t';
    add_words(words + random() % 6);
    text += '\n';
  }
  return text;
}

TEST(ParallelText, EpochsHaveEveryPairOnceInFewShapesAndAnOrderThatFollowsFromTheSeed) {
  const text_files at;
  auto options = at.options;
  options.most_tokens = 50;
  const auto where = at.file("t.tsv", random_pairs(900));
  const auto one = open_parallel_text(where, options), other = open_parallel_text(where, options);
  const auto list = one.train->minibatches({.batch = 16, .seed = 5}),
             again = other.train->minibatches({.batch = 16, .seed = 5});
  EXPECT_THAT(list->description(),
              testing::MatchesRegex("[0-9]+ minibatches of [0-9]+ shapes, [0-9]+\\.[0-9]% padding"));
  std::set<std::vector<rows>> orders;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const std::int64_t epoch : {1, 0}) {
    std::vector<rows> order;
    std::int64_t seen = 0;
    for (std::int64_t i = 0; i < list->per_epoch(); ++i) {
      const auto number = epoch * list->per_epoch() + i;
      const auto facts = list->facts(number);
      shapes.emplace(facts.extents[0], facts.extents[1]);
      EXPECT_EQ(facts.extents[0] % 5 + facts.extents[1] % 5, 0);
      seen += facts.samples;
      order.push_back(loaded(*one.train, *list, number).at("source"));
      EXPECT_EQ(order.back(), loaded(*other.train, *again, number).at("source"));
    }
    EXPECT_EQ(seen, one.train->size());
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 2U);
  EXPECT_LE(shapes.size(), 20U);
}

TEST(ParallelText, BucketsAreAsWideAsAskedAndTokensBoundAMinibatch) {
  const text_files at;
  auto options = at.options;
  options.most_tokens = 50;
  const auto where = at.file("t.tsv", random_pairs(300));
  options.lengths = {.bucket_width = 10, .batch_tokens = 300};
  const auto pair = open_parallel_text(where, options);
  const auto list = pair.train->minibatches({.batch = 1, .seed = 2});
  for (std::int64_t i = 0; i < list->per_epoch(); ++i) {
    const auto facts = list->facts(i);
    EXPECT_EQ(facts.extents[0] % 10 + facts.extents[1] % 10, 0);
    EXPECT_LE(facts.samples * std::max(facts.extents[0], facts.extents[1]), 300);
  }
}

} // namespace
} // namespace penstock::apps
