// Translation's ids: PAD, UNK, BOS, EOS first, whatever the tokenizer has where.
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/translation_tokens.hpp"
#include "kernels/check.hpp"
#include "tests/text/fixtures.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;

/// Letters from 'a' on are ids of their own, in order around the special ones.
class letters final : public tokenizer {
public:
  letters(std::int64_t size, special_ids special) : size_(size), special_(special) {}
  std::int64_t vocabulary_size() const override { return size_; }
  const special_ids& special() const override { return special_; }
  std::string description() const override { return "letters"; }

private:
  token_ids encode_valid(std::string_view text) const override {
    token_ids ids;
    for (const char c : text)
      ids.push_back(c == '?' ? special_.unknown.value_or(0) : c - 'a');
    return ids;
  }
  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      text += id == special_.unknown ? '?' : static_cast<char>('a' + id);
    return text;
  }
  std::string token_valid(std::int64_t) const override { return ""; }

  std::int64_t size_;
  special_ids special_;
};

translation_tokens of_letters(std::int64_t size, special_ids special) {
  return translation_tokens(std::make_shared<letters>(size, special));
}

TEST(TranslationTokens, ATokenizerThatHasTheFourInPlaceKeepsItsIds) {
  const auto tokens = of_letters(8, {.pad = 0, .unknown = 1, .begin = 2, .end = 3});
  EXPECT_EQ(tokens.vocabulary_size(), 8);
  EXPECT_THAT(tokens.encode("eh?"), ElementsAre(4, 7, 1));
  const token_ids back{2, 4, 7, 1, 3, 0};
  EXPECT_EQ(tokens.decode(back), "eh?");
}

TEST(TranslationTokens, SentencepiecesOwnOrderMovesUpByThePadThatItLacks) {
  const auto tokens = of_letters(8, {.unknown = 0, .begin = 1, .end = 2});
  EXPECT_EQ(tokens.vocabulary_size(), 9);
  EXPECT_THAT(tokens.encode("dh?"), ElementsAre(4, 8, 1));
  const token_ids back{0, 2, 8, 4, 3};
  EXPECT_EQ(tokens.decode(back), "hd");
}

TEST(TranslationTokens, SpecialTokensFurtherBackMoveToTheFront) {
  const auto tokens = of_letters(8, {.pad = 0, .unknown = 5, .begin = 6, .end = 7, .mask = 2});
  EXPECT_EQ(tokens.vocabulary_size(), 8);
  EXPECT_THAT(tokens.encode("bcde?"), ElementsAre(4, 5, 6, 7, 1));
  EXPECT_EQ(tokens.decode(tokens.encode("bcde?")), "bcde?");
}

TEST(TranslationTokens, ATokenizerWithoutAnyOrWithOneForTwoHasAllFour) {
  const auto none = of_letters(3, {});
  EXPECT_EQ(none.vocabulary_size(), 7);
  EXPECT_THAT(none.encode("abc"), ElementsAre(4, 5, 6));
  const token_ids unknown{1, 5};
  EXPECT_EQ(none.decode(unknown), "b") << "there is no token for what is unknown";
  const auto shared = of_letters(3, {.unknown = 2, .begin = 2, .end = 2});
  EXPECT_EQ(shared.vocabulary_size(), 6);
  EXPECT_THAT(shared.encode("ab?"), ElementsAre(4, 5, 1));
}

TEST(TranslationTokens, IdsOutsideAreRefused) {
  const auto tokens = of_letters(8, {});
  for (const std::int64_t id : {-1, 12}) {
    const token_ids ids{id};
    EXPECT_THROW(tokens.decode(ids), error);
  }
}

TEST(TranslationTokens, ASentencepieceModelOfOursAndMergesAreTakenAsTheyAre) {
  for (const char* file : {"pieces.model", "merges.bpe"}) {
    const std::shared_ptr<const tokenizer> theirs = open_tokenizer(std::string(TEXT_FIXTURES) + "/" + file);
    const translation_tokens tokens(theirs);
    const std::string line = "a line of some words";
    EXPECT_EQ(tokens.decode(tokens.encode(line)), theirs->decode(theirs->encode(line))) << file;
    if (theirs->special() == special_ids{.pad = 0, .unknown = 1, .begin = 2, .end = 3}) {
      EXPECT_EQ(tokens.vocabulary_size(), theirs->vocabulary_size()) << file;
      EXPECT_EQ(tokens.encode(line), theirs->encode(line)) << file;
    }
  }
}

} // namespace
} // namespace penstock::apps
