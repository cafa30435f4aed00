// Beam search by hand-made scores: what stays in the beam, what ends, and what is best in the end.
#include "apps/translation/beam_search.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace penstock::apps {
namespace {

using testing::ElementsAre;

constexpr std::int64_t end = 3;

/// Probabilities of the tokens 0 to 5 that come next, and attention to two tokens of the source.
struct made_scores {
  std::vector<float> probabilities, logits, attention;

  explicit made_scores(std::vector<float> p, std::vector<float> a = {0.5F, 0.5F})
      : probabilities(std::move(p)), attention(std::move(a)) {
    for (const float one : probabilities)
      logits.push_back(std::log(one) + 7); // only differences count
  }
  next_scores get() const { return {.logits = logits, .probabilities = probabilities, .attention = attention}; }
};

std::vector<std::size_t> advance(beam_search& search, const std::vector<made_scores>& rows) {
  std::vector<next_scores> scores;
  for (const auto& row : rows)
    scores.push_back(row.get());
  return search.advance(scores);
}

TEST(BeamSearch, OneHypothesisTakesTheBestTokenUntilItEnds) {
  beam_search search({.beam = 1}, 2);
  EXPECT_EQ(search.rows(), 1U);
  EXPECT_EQ(search.last_token(0), 2) << "BOS comes first";
  EXPECT_THAT(advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.1F, 0.4F, 0.2F})}), ElementsAre(0));
  EXPECT_EQ(search.last_token(0), 4);
  EXPECT_THAT(advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.5F, 0.1F, 0.1F})}), ElementsAre());
  ASSERT_TRUE(search.is_done());
  EXPECT_THAT(search.best().tokens, ElementsAre(4, end));
  // Both tokens of the source were attended to once; length 2.
  EXPECT_NEAR(search.best().score, std::log(0.4 * 0.5) / std::pow(7.0 / 6, 0.6), 1e-6);
}

TEST(BeamSearch, TheBestOfAllHypothesesGoOnWhoeverTheyContinue) {
  beam_search search({.beam = 2}, 2);
  EXPECT_THAT(advance(search, {made_scores({0.05F, 0.05F, 0.05F, 0.05F, 0.5F, 0.3F})}), ElementsAre(0, 0));
  EXPECT_EQ(search.last_token(0), 4);
  EXPECT_EQ(search.last_token(1), 5);
  // 0.3 * 0.9 is the most, then 0.5 * 0.3.
  EXPECT_THAT(advance(search, {made_scores({0.3F, 0.2F, 0.2F, 0.1F, 0.1F, 0.1F}),
                               made_scores({0.02F, 0.9F, 0.02F, 0.02F, 0.02F, 0.02F})}),
              ElementsAre(1, 0));
  EXPECT_EQ(search.last_token(0), 1);
  EXPECT_EQ(search.last_token(1), 0);
}

TEST(BeamSearch, AnEndedHypothesisKeepsItsPlaceUntilBetterOnesTakeIt) {
  beam_search search({.beam = 2, .length_power = 0, .coverage = 0}, 2);
  advance(search, {made_scores({0.05F, 0.05F, 0.05F, 0.3F, 0.5F, 0.05F})});
  ASSERT_EQ(search.rows(), 1U) << "0.3 has ended";
  // The best that the other can become is 0.5 * 0.5; the ended one stays in the beam.
  EXPECT_THAT(advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.5F})}), ElementsAre(0));
  EXPECT_THAT(advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.5F, 0.1F, 0.1F})}), ElementsAre());
  EXPECT_THAT(search.best().tokens, ElementsAre(end));
  EXPECT_NEAR(search.best().score, std::log(0.3), 1e-6);

  beam_search other({.beam = 2}, 2);
  advance(other, {made_scores({0.05F, 0.05F, 0.05F, 0.06F, 0.7F, 0.01F})});
  EXPECT_THAT(advance(other, {made_scores({0.05F, 0.05F, 0.05F, 0.05F, 0.4F, 0.4F})}), ElementsAre(0, 0))
      << "0.28 twice drives 0.06 out";
}

TEST(BeamSearch, LengthAndCoverageDecideInTheEnd) {
  // "4 EOS" covers the second token of the source less than "5 EOS", which is a little less probable.
  const auto best_by = [](double coverage) {
    beam_search search({.beam = 2, .coverage = coverage}, 2);
    advance(search, {made_scores({0.01F, 0.01F, 0.01F, 0.01F, 0.5F, 0.45F}, {0.9F, 0.1F})});
    advance(search, {made_scores({0.02F, 0.02F, 0.02F, 0.9F, 0.02F, 0.02F}, {0.9F, 0.1F}),
                     made_scores({0.02F, 0.02F, 0.02F, 0.9F, 0.02F, 0.02F}, {0.1F, 0.9F})});
    return search.best();
  };
  EXPECT_THAT(best_by(0).tokens, ElementsAre(4, end));
  const auto covered = best_by(0.1);
  EXPECT_THAT(covered.tokens, ElementsAre(5, end));
  EXPECT_NEAR(covered.score, std::log(0.45 * 0.9) / std::pow(7.0 / 6, 0.6), 1e-6) << "each was attended to once";
}

TEST(BeamSearch, ATokenOfTheSourceThatNobodyAttendedToIsFinite) {
  beam_search search({.beam = 1}, 2);
  advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.5F, 0.1F, 0.1F}, {1, 0})});
  EXPECT_TRUE(std::isfinite(search.best().score));
  EXPECT_LT(search.best().score, -50);
}

TEST(BeamSearch, TheLimitEndsWhatHasNotEnded) {
  beam_search search({.beam = 2, .most_tokens = 3}, 2);
  const made_scores goes_on({0.1F, 0.1F, 0.1F, 0.01F, 0.5F, 0.2F});
  advance(search, {goes_on});
  advance(search, {goes_on, goes_on});
  EXPECT_FALSE(search.is_done());
  advance(search, {goes_on, goes_on});
  ASSERT_TRUE(search.is_done());
  EXPECT_THAT(search.best().tokens, ElementsAre(4, 4, 4));
}

TEST(BeamSearch, ABeamWiderThanTheVocabularyTakesWhatThereIs) {
  beam_search search({.beam = 9, .most_tokens = 2}, 2);
  EXPECT_EQ(advance(search, {made_scores({0.1F, 0.1F, 0.1F, 0.1F, 0.5F, 0.1F})}).size(), 5U) << "one of six has ended";
}

TEST(BeamSearch, AProbabilityTooSmallForAFloatIsStillComparable) {
  made_scores scores({1, 0, 0, 0, 0, 0});
  scores.logits = {200, 0, 10, -5, 20, 30};
  beam_search search({.beam = 3, .most_tokens = 1, .coverage = 0}, 2);
  advance(search, {scores});
  EXPECT_THAT(search.best().tokens, ElementsAre(0));
  beam_search two({.beam = 2, .most_tokens = 2}, 2);
  advance(two, {scores});
  EXPECT_EQ(two.last_token(1), 5);
}

TEST(BeamSearch, ScoresThatAreNoNumbersAreAnError) {
  made_scores scores({0.1F, 0.1F, 0.1F, 0.1F, 0.5F, 0.1F});
  scores.logits.assign(6, std::numeric_limits<float>::quiet_NaN());
  beam_search search({}, 2);
  EXPECT_THROW(advance(search, {scores}), error);
}

} // namespace
} // namespace penstock::apps
