// Running text: columns and pieces as AWD-LSTM's, every prediction once, and files that are refused.
#include "apps/data/stream_pieces.hpp"
#include "apps/data/text_stream.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/data/number_words.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <numeric>

namespace penstock::apps {
namespace {

using actors::batching;
using test::loaded;
using test::rows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct stream_files {
  testing_support::temporary_folder folder;
  text_stream_options options{.tokens = std::make_shared<test::number_words>(), .length = 3};

  std::string file(const std::string& name, const std::string& text) const {
    testing_support::write_file(folder / name, text);
    return (folder / name).string();
  }
  // 10 11 ... with the end token, 2, behind them.
  std::string numbers(std::int64_t count) const {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i)
      text += (i == 0 ? "" : " ") + std::to_string(10 + i);
    return file("numbers.txt", text + "\n");
  }
};

TEST(TextStream, AWordsLineEndsWithTheEndTokenAndRareWordsAreUnknown) {
  const stream_files at;
  const auto where = at.file("t.txt", "\xef\xbb\xbf"
                                      "a b a\r\n\nb a c\n");
  EXPECT_EQ(words_in(where), 5);
  EXPECT_EQ(words_in(where, 4), 4);
  const auto pair = open_text_stream(where, {.most_words = 4, .length = 20});
  EXPECT_EQ(pair.test, nullptr);
  EXPECT_EQ(pair.train->size(), 9);
  const auto list = pair.train->minibatches({.batch = 1, .training = false});
  ASSERT_EQ(list->per_epoch(), 1);
  const auto values = loaded(*pair.train, *list, 0); // <unk> 0, <eos> 1, a 2, b 3
  EXPECT_EQ(values.at("input"), (rows{{2, 3, 2, 1, 1, 3, 2, 0}}));
  EXPECT_EQ(values.at("labels"), (rows{{3, 2, 1, 1, 3, 2, 0, 1}}));
  EXPECT_THAT(pair.train->description(), HasSubstr("9 tokens from " + where + ", 1 of them unknown"));
}

TEST(TextStream, TrainingColumnsAreAwdsAndFollowOnFromPieceToPiece) {
  const stream_files at;
  const auto pair = open_text_stream(at.numbers(83), at.options); // 84 tokens: columns of 28, 27 predictions each
  const auto list = pair.train->minibatches({.batch = 3, .seed = 4});
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::vector<std::int64_t>> read(3), wanted(3);
    for (std::int64_t i = 0; i < list->per_epoch(); ++i) {
      const auto minibatch = epoch * list->per_epoch() + i;
      const auto facts = list->facts(minibatch);
      EXPECT_EQ(facts.epoch, epoch);
      EXPECT_EQ(facts.samples, 3);
      EXPECT_EQ(facts.column, 0);
      EXPECT_EQ(facts.counts[1], static_cast<double>(3 * facts.extents[0]));
      EXPECT_DOUBLE_EQ(list->rate(minibatch), static_cast<double>(facts.extents[0]) / 3);
      const auto values = loaded(*pair.train, *list, minibatch);
      for (std::size_t c = 0; c < 3; ++c) {
        const auto &input = values.at("input")[c], &labels = values.at("labels")[c];
        read[c].insert(read[c].end(), input.begin(), input.end());
        for (std::size_t t = 0; t + 1 < input.size(); ++t)
          EXPECT_EQ(labels[t], input[t + 1]);
        EXPECT_EQ(labels.back(), input.back() + 1 < 93 ? input.back() + 1 : 2);
      }
    }
    for (std::int64_t c = 0; c < 3; ++c) {
      wanted[static_cast<std::size_t>(c)].resize(27);
      std::iota(wanted[static_cast<std::size_t>(c)].begin(), wanted[static_cast<std::size_t>(c)].end(), 10 + 28 * c);
    }
    EXPECT_EQ(read, wanted);
  }
}

TEST(TextStream, ColumnBlocksTakeTurnsAndSharePieces) {
  const stream_files at;
  const auto pair = open_text_stream(at.numbers(83), at.options);
  const batching whole{.batch = 4, .seed = 4}, halves{.batch = 2, .seed = 4, .column_blocks = 2};
  EXPECT_EQ(pair.train->columns(whole), 4);
  EXPECT_EQ(pair.train->columns(halves), 4);
  const auto one = pair.train->minibatches(whole), two = pair.train->minibatches(halves);
  ASSERT_EQ(two->per_epoch(), 2 * one->per_epoch());
  for (std::int64_t i = 0; i < two->per_epoch(); ++i) {
    const auto facts = two->facts(i);
    EXPECT_EQ(facts.column, i % 2 * 2);
    EXPECT_EQ(facts.extents[0], one->facts(i / 2).extents[0]);
    EXPECT_EQ(loaded(*pair.train, *two, i).at("input"), loaded(*pair.train, *one, i / 2, facts.column, 2).at("input"));
  }
}

// However many columns: the multiset of what is predicted is the stream's.
TEST(TextStream, AnEvaluationCountsEveryPredictionOnceAndPadsTheRest) {
  const stream_files at;
  for (const std::int64_t tokens : {2, 7, 30, 31})
    for (const std::int64_t batch : {1, 2, 4, 5, 11}) {
      if (batch > tokens - 1) continue;
      SCOPED_TRACE(std::to_string(tokens) + " tokens, " + std::to_string(batch) + " columns");
      const auto pair = open_text_stream(at.numbers(tokens - 1), at.options);
      const auto list = pair.train->minibatches({.batch = batch, .training = false});
      std::vector<std::int64_t> predicted;
      double counted = 0;
      for (std::int64_t i = 0; i < list->per_epoch(); ++i) {
        const auto facts = list->facts(i);
        EXPECT_EQ(list->rate(i), 1);
        EXPECT_TRUE(facts.extents[0] == 3 || i + 1 == list->per_epoch());
        counted += facts.counts[1];
        const auto values = loaded(*pair.train, *list, i);
        for (std::size_t c = 0; c < static_cast<std::size_t>(batch); ++c)
          for (std::size_t t = 0; t < static_cast<std::size_t>(facts.extents[0]); ++t) {
            const auto label = values.at("labels")[c][t];
            if (label == -100) continue;
            predicted.push_back(label);
            EXPECT_EQ(label, values.at("input")[c][t] + 1 < tokens + 9 ? values.at("input")[c][t] + 1 : 2);
          }
      }
      std::sort(predicted.begin(), predicted.end());
      std::vector<std::int64_t> wanted(static_cast<std::size_t>(tokens - 1));
      std::iota(wanted.begin(), wanted.end(), 10);
      wanted[0] = 2; // the end, instead of 10, which nothing comes before
      EXPECT_EQ(predicted, wanted);
      EXPECT_EQ(counted, static_cast<double>(tokens - 1));
    }
}

TEST(StreamPieces, AreDistributedAsAwdsAndEveryEpochHasItsOwnOrder) {
  constexpr std::int64_t steps = 1'000'000;
  const stream_pieces pieces(steps, 70, 1, true);
  std::vector<std::int64_t> lengths[2];
  for (const std::int64_t epoch : {0, 1}) {
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < pieces.count(); ++i) {
      const auto piece = pieces.at(epoch, i);
      EXPECT_EQ(piece.first, next);
      next += piece.steps;
      lengths[epoch].push_back(piece.steps);
      EXPECT_GE(piece.steps, 5);
    }
    EXPECT_EQ(next, steps);
  }
  EXPECT_NE(lengths[0], lengths[1]);
  EXPECT_EQ(pieces.at(0, 7).first, stream_pieces(steps, 70, 1, true).at(0, 7).first);
  EXPECT_NE(pieces.at(0, 7).first, stream_pieces(steps, 70, 2, true).at(0, 7).first);
  double sum = 0, squares = 0, full = 0;
  for (const auto length : lengths[0]) {
    if (length < 53) continue; // those about 35: there is nothing between
    ++full;
    sum += static_cast<double>(length);
    squares += static_cast<double>(length * length);
  }
  const double mean = sum / full, share = full / static_cast<double>(lengths[0].size());
  EXPECT_NEAR(share, 0.95, 0.01);
  EXPECT_NEAR(mean, 69.5, 0.2) << "int() cuts half a step off";
  EXPECT_NEAR(std::sqrt(squares / full - mean * mean), 5, 0.2);
}

TEST(StreamPieces, ShortColumnsAreOnePiece) {
  EXPECT_EQ(stream_pieces(1, 70, 1, true).count(), 1);
  EXPECT_EQ(stream_pieces(4, 70, 1, true).at(0, 0).steps, 4);
  EXPECT_EQ(stream_pieces(141, 70, 1, false).count(), 3);
  EXPECT_EQ(stream_pieces(141, 70, 1, false).at(5, 2).steps, 1);
}

TEST(TextStream, AFolderIsEvaluatedOnItsValidationPart) {
  const stream_files at;
  at.file("train.txt", "10 11 12\n");
  at.file("test.txt", "13 14\n");
  EXPECT_THAT(open_text_stream(at.folder.path().string(), at.options).test->description(), HasSubstr("test.txt"));
  at.file("valid.txt", "15 16\n");
  EXPECT_THAT(open_text_stream(at.folder.path().string(), at.options).test->description(), HasSubstr("valid.txt"));
  const auto two =
      open_text_stream((at.folder / "train.txt").string() + "," + (at.folder / "test.txt").string(), at.options);
  EXPECT_THAT(two.test->description(), HasSubstr("test.txt"));
}

TEST(TextStream, RefusesFilesThatAreNoStream) {
  const stream_files at;
  const auto opening = [&](const std::string& name, const std::string& text) {
    return [&at, where = at.file(name, text)] { open_text_stream(where, at.options); };
  };
  const auto path = [&](const std::string& name) { return (at.folder / name).string(); };
  EXPECT_THAT(opening("empty.txt", ""),
              ThrowsMessage<error>(path("empty.txt") + ": found no text, wanted at least two tokens"));
  EXPECT_THAT(opening("one.txt", "\n"),
              ThrowsMessage<error>(path("one.txt") + ": found one token, wanted at least two tokens"));
  EXPECT_THAT(opening("bad.txt", "10\n11 \xff\n"),
              ThrowsMessage<error>(path("bad.txt") + ": line 2: byte 4 is 0xff, wanted UTF-8"));
  EXPECT_THAT([&] { words_in(at.file("blank.txt", " \n\n")); },
              ThrowsMessage<error>(path("blank.txt") + ": found no words, wanted text"));
  EXPECT_THROW(open_text_stream("/nowhere/at-all", at.options), error);
}

TEST(TextStream, RefusesMoreColumnsThanItHasPairsOfTokens) {
  const stream_files at;
  const auto where = at.numbers(10);
  const auto pair = open_text_stream(where, at.options);
  EXPECT_NO_THROW(pair.train->minibatches({.batch = 5}));
  EXPECT_THAT(
      [&] { pair.train->minibatches({.batch = 6}); },
      ThrowsMessage<usage_error>(where + ": found 11 tokens for 6 columns (--batch), wanted at most 5 columns"));
  EXPECT_THAT([&] { pair.train->minibatches({.batch = 3, .column_blocks = 2}); },
              ThrowsMessage<usage_error>(
                  where + ": found 11 tokens for 2 times 3 columns (--batch), wanted at most 5 columns"));
  EXPECT_NO_THROW(pair.train->minibatches({.batch = 10, .training = false}));
}

} // namespace
} // namespace penstock::apps
