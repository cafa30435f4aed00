// What is learned equals what the libraries learn from the same text.
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/train_tokenizer.hpp"
#include "kernels/check.hpp"
#include "tests/text/fixtures.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

tokenizer_training of_text(std::string kind, std::int64_t size) {
  return {.kind = std::move(kind), .size = size, .inputs = {fixture("train.txt").string()}};
}

TEST(TrainTokenizer, LearnsTheMergesOfSubwordNmt) {
  const temporary_folder folder;
  train_tokenizer(of_text("merges", 400), folder / "m");
  EXPECT_EQ(read_file(folder / "m"), read_file(fixture("merges.bpe")));
  EXPECT_EQ(read_file(folder / "m.vocab"), read_file(fixture("merges.bpe.vocab")));
}

TEST(TrainTokenizer, LearnsTheSameTwice) {
  for (const std::string kind : {"wordpiece", "words", "sentencepiece"}) {
    const temporary_folder folder;
    train_tokenizer(of_text(kind, 300), folder / "a");
    train_tokenizer(of_text(kind, 300), folder / "b");
    EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b")) << kind;
    const auto opened = open_tokenizer((folder / "a").string());
    EXPECT_EQ(opened->vocabulary_size(), 300) << kind;
    EXPECT_EQ(opened->decode(opened->encode("and the earth was there")), "and the earth was there") << kind;
  }
}

TEST(TrainTokenizer, RefusesTextWithoutWords) {
  const temporary_folder folder;
  write_file(folder / "t", "\n  \n");
  for (const std::string kind : {"wordpiece", "merges", "words"}) {
    auto training = of_text(kind, 300);
    training.inputs = {(folder / "t").string()};
    EXPECT_THROW(train_tokenizer(training, folder / "out"), error) << kind;
    EXPECT_FALSE(std::filesystem::exists(folder / "out")) << kind;
  }
}

TEST(TrainTokenizer, RefusesMorePiecesThanTheTextHas) {
  const temporary_folder folder;
  try {
    train_tokenizer(of_text("sentencepiece", 100'000), folder / "out");
    ADD_FAILURE() << "was accepted";
  } catch (const error& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr("Vocabulary size"));
  }
  EXPECT_THROW(train_tokenizer(of_text("wordpiece", 10), folder / "out"), usage_error);
}

} // namespace
} // namespace penstock::apps
