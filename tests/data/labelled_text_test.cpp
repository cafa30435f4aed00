// Labelled text: classes by byte order, padded rows, and lines that are refused.
#include "apps/data/labelled_text.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/data/number_words.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using actors::batching;
using test::loaded;
using test::rows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct text_files {
  testing_support::temporary_folder folder;
  labelled_text_options options{.tokens = std::make_shared<test::number_words>(), .most_tokens = 8};

  std::string file(const std::string& name, const std::string& text) const {
    testing_support::write_file(folder / name, text);
    return (folder / name).string();
  }
};

TEST(LabelledText, RowsArePaddedToTheMinibatchsExtent) {
  const text_files at;
  const auto pair = open_labelled_text(at.file("t.tsv", "b\t10 11 12\r\na\t20\nb\t30 31\n"), at.options);
  EXPECT_THAT(pair.labels, ElementsAre("a", "b"));
  EXPECT_EQ(pair.test, nullptr);
  const auto list = pair.train->minibatches({.batch = 8, .training = false});
  ASSERT_EQ(list->per_epoch(), 1);
  const auto facts = list->facts(0);
  EXPECT_EQ(facts.samples, 3);
  EXPECT_EQ(facts.counts[0], 3);
  EXPECT_EQ(facts.counts[1], 5 + 3 + 4);
  EXPECT_EQ(facts.extents[0], 5);
  const auto values = loaded(*pair.train, *list, 0);
  EXPECT_EQ(values.at("input_ids"), (rows{{1, 10, 11, 12, 2}, {1, 20, 2, 0, 0}, {1, 30, 31, 2, 0}}));
  EXPECT_EQ(values.at("token_type_ids"), (rows{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}));
  EXPECT_EQ(values.at("lengths"), (rows{{5}, {3}, {4}}));
  EXPECT_EQ(values.at("labels"), (rows{{1}, {0}, {1}}));
  EXPECT_EQ(loaded(*pair.train, *list, 0, 1, 1).at("input_ids"), (rows{{1, 20, 2, 0, 0}}));
}

TEST(LabelledText, TheLabelIsTheColumnWithFewerDifferentValues) {
  const text_files at;
  const auto pair = open_labelled_text(at.file("t.tsv", "10\tx\n11\ty\n12\tx\n"), at.options);
  EXPECT_THAT(pair.labels, ElementsAre("x", "y"));
}

TEST(LabelledText, ClassesAreNumberedInByteOrder) {
  const text_files at;
  const auto pair = open_labelled_text(at.file("t.tsv", "\xc3\xa9\t5\nz\t6\nZ\t7\nz\t8\n"), at.options);
  EXPECT_THAT(pair.labels, ElementsAre("Z", "z", "\xc3\xa9"));
}

TEST(LabelledText, LongTextIsCutAndItsEndStays) {
  const text_files at;
  const auto pair = open_labelled_text(at.file("t.tsv", "a\t10 11 12 13 14 15 16 17 18\n"), at.options);
  const auto list = pair.train->minibatches({});
  EXPECT_EQ(loaded(*pair.train, *list, 0).at("input_ids"), (rows{{1, 10, 11, 12, 13, 14, 15, 2}}));
  EXPECT_THAT(pair.train->description(), HasSubstr("1 cut to 8 tokens"));
}

TEST(LabelledText, AFolderHasItsTestPartBesideIt) {
  const text_files at;
  at.file("train.tsv", "a\t10\nb\t11\na\t12\n");
  at.file("dev.tsv", "b\t13\n");
  const auto pair = open_labelled_text(at.folder.path().string(), at.options);
  ASSERT_NE(pair.test, nullptr);
  EXPECT_EQ(loaded(*pair.test, *pair.test->minibatches({}), 0).at("labels"), (rows{{1}}));
  const auto two =
      open_labelled_text((at.folder / "train.tsv").string() + "," + (at.folder / "dev.tsv").string(), at.options);
  EXPECT_EQ(two.test->size(), 1);
}

TEST(LabelledText, AnEpochHasEverySampleOnce) {
  const text_files at;
  std::string text;
  for (int i = 4; i < 100; ++i)
    text += "ab"[i % 2] + std::string("\t") + std::to_string(i) + (i % 3 == 0 ? " 5 6 7 8\n" : "\n");
  const auto pair = open_labelled_text(at.file("t.tsv", text), at.options);
  const auto list = pair.train->minibatches({.batch = 10, .seed = 5});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < list->per_epoch(); ++i) {
      const auto values = loaded(*pair.train, *list, epoch * list->per_epoch() + i);
      for (const auto& row : values.at("input_ids"))
        seen.push_back(row[1]);
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> wanted;
    for (int i = 4; i < 100; ++i)
      wanted.push_back(i);
    EXPECT_EQ(seen, wanted);
  }
}

TEST(LabelledText, WhatIsNoLabelledLineIsRefusedWithItsPlace) {
  const text_files at;
  const auto refuses = [&](const std::string& text, const std::string& says) {
    const auto file = at.file("t.tsv", text);
    EXPECT_THAT([&] { open_labelled_text(file, at.options); }, ThrowsMessage<error>(HasSubstr(says))) << text;
  };
  refuses("a\t5\nb\n", "t.tsv: line 2: found 1 columns");
  refuses("a\t5\n\nb\t6\n", "line 2: found 1 columns");
  refuses("a\t5\tc\n", "line 1: found 3 columns");
  refuses("a\t5\nb\t \n", "line 2: found an empty column");
  refuses("\t5\n", "line 1: found an empty column");
  refuses("", "found no lines");
  refuses("a\t5\nb\t\xff\n", "line 2");
  EXPECT_THROW(open_labelled_text((at.folder / "missing.tsv").string(), at.options), error);
}

TEST(LabelledText, LabelsThatDoNotFitAreRefused) {
  const text_files at;
  const auto train = at.file("train.tsv", "noun.act\t5\nverb\t6\nnoun.act\t7\n");
  const auto test = at.file("x.tsv", "verb\t5\nnoun.acts\t6\n");
  EXPECT_THAT([&] { open_labelled_text(train + "," + test, at.options); },
              ThrowsMessage<error>(HasSubstr("x.tsv: line 2: found the label 'noun.acts', wanted one of the 2 of the "
                                             "training data (did you mean 'noun.act'?)")));
  auto options = at.options;
  options.classes = 1;
  EXPECT_THAT([&] { open_labelled_text(train, options); },
              ThrowsMessage<usage_error>(HasSubstr("found 2 labels, wanted at most the 1 classes")));
  options = at.options;
  options.most_tokens = 2;
  EXPECT_THAT([&] { open_labelled_text(train, options); },
              ThrowsMessage<usage_error>(HasSubstr("a limit of 2 tokens, wanted more than the 2 around each text")));
}

} // namespace
} // namespace penstock::apps
