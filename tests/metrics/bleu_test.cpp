// BLEU: tokens, counts and scores are sacrebleu's.
#include "apps/metrics/bleu.hpp"
#include "kernels/check.hpp"
#include "tests/metrics/fixture.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using lines = std::vector<std::string>;

bleu_tokenizer tokenizer_named(const std::string& name) {
  for (const auto known : {bleu_tokenizer::thirteen_a, bleu_tokenizer::none})
    if (name == name_of(known)) return known;
  return bleu_tokenizer::intl;
}

TEST(Bleu, TokensOfOddLinesAreSacrebleus) {
  const auto odd = test::fixture("bleu_tokens.json");
  for (const auto& wanted : odd.at("cases"))
    for (std::size_t i = 0; i < wanted.at("tokens").size(); ++i) {
      const std::string name = wanted.at("tokenizer");
      EXPECT_EQ(bleu_tokens(odd.at("lines").at(i).get<std::string>(), tokenizer_named(name), wanted.at("lower")),
                wanted.at("tokens").at(i).get<lines>())
          << name << " of line " << i;
    }
}

TEST(Bleu, ScoresOfCorporaAreSacrebleus) {
  for (const auto& wanted : test::fixture("bleu.json")) {
    const auto score =
        corpus_bleu(wanted.at("hypotheses").get<lines>(), wanted.at("references").get<std::vector<lines>>(),
                    {tokenizer_named(wanted.at("tokenizer")), wanted.at("lower")});
    const std::string signature = wanted.at("signature");
    EXPECT_EQ(score.matches, (wanted.at("counts").get<std::array<std::int64_t, 4>>())) << signature;
    EXPECT_EQ(score.totals, (wanted.at("totals").get<std::array<std::int64_t, 4>>())) << signature;
    EXPECT_EQ(score.hypothesis_tokens, wanted.at("sys_len"));
    EXPECT_EQ(score.reference_tokens, wanted.at("ref_len"));
    EXPECT_NEAR(score.brevity_penalty(), wanted.at("bp").get<double>(), 1e-12);
    for (std::size_t order = 0; order < 4; ++order)
      EXPECT_NEAR(score.precisions().at(order), wanted.at("precisions").at(order).get<double>(), 1e-10);
    EXPECT_NEAR(score.bleu(), wanted.at("score").get<double>(), 1e-9) << signature;
    EXPECT_EQ(score.signature(), signature);
  }
}

TEST(Bleu, NothingInCommonIsZeroAndEmptyHypothesesToo) {
  EXPECT_EQ(corpus_bleu(lines{"a b c d e"}, std::vector<lines>{{"v w x y z"}}).bleu(), 0);
  const auto empty = corpus_bleu(lines{""}, std::vector<lines>{{"v w x y z"}});
  EXPECT_EQ(empty.bleu(), 0);
  EXPECT_EQ(empty.brevity_penalty(), 0);
}

TEST(Bleu, SetsOfDifferentLengthAreRefused) {
  EXPECT_THROW(corpus_bleu(lines{"a"}, std::vector<lines>{{"a", "b"}}), usage_error);
  EXPECT_THROW(corpus_bleu(lines{"a"}, std::vector<lines>{}), usage_error);
}

} // namespace
} // namespace penstock::apps
