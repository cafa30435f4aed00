// Accuracy and macro F1: scikit-learn's.
#include "apps/metrics/class_tally.hpp"
#include "tests/metrics/fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::apps {
namespace {

TEST(ClassTally, AccuracyAndMacroF1AreScikitLearns) {
  for (const auto& wanted : test::fixture("classes.json")) {
    class_tally tally;
    for (std::size_t i = 0; i < wanted.at("truth").size(); ++i)
      tally.add(wanted.at("truth").at(i), wanted.at("said").at(i));
    EXPECT_EQ(tally.samples(), static_cast<std::int64_t>(wanted.at("truth").size()));
    EXPECT_NEAR(tally.accuracy(), wanted.at("accuracy").get<double>(), 1e-12);
    EXPECT_NEAR(tally.macro_f1(), wanted.at("macro_f1").get<double>(), 1e-12);
  }
}

TEST(ClassTally, NoSamplesGiveNoNumber) {
  EXPECT_TRUE(std::isnan(class_tally().accuracy()));
  EXPECT_TRUE(std::isnan(class_tally().macro_f1()));
}

} // namespace
} // namespace penstock::apps
