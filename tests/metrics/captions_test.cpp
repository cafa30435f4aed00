// Captions: what counts as exactly right; perplexity beside them.
#include "apps/metrics/captions.hpp"
#include "apps/metrics/perplexity.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using lines = std::vector<std::string>;

TEST(Captions, AreRightWhereTheyAreAReferenceWordByWord) {
  const lines captions{"A sneaker  moves left", "a bag moves up", "a top moves down", "a dress"};
  const std::vector<lines> references{{"a sneaker moves left", "a bag moves down", "a coat moves down", "a dress ."},
                                      {"left", "a bag", "A TOP moves down", "a  Dress."}};
  EXPECT_DOUBLE_EQ(score_captions(captions, references).exact, 50);
}

TEST(Captions, AllRightIsAHundredOfBoth) {
  const lines captions{"a sneaker moves left and then up", "a bag does not move"};
  const auto score = score_captions(captions, std::vector<lines>{captions});
  EXPECT_DOUBLE_EQ(score.exact, 100);
  EXPECT_NEAR(score.bleu.bleu(), 100, 1e-9);
}

TEST(Perplexity, IsTheExponentialOfTheMeanOverTokens) {
  EXPECT_DOUBLE_EQ(perplexity(3 * std::log(50.0), 3), 50);
  EXPECT_TRUE(std::isnan(perplexity(0, 0)));
}

} // namespace
} // namespace penstock::apps
