// SQuAD's measures, and what is refused of files in its form.
#include "apps/metrics/squad.hpp"
#include "kernels/check.hpp"
#include "tests/metrics/fixture.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Squad, AnswersAreNormalisedAsTheOfficialScriptDoes) {
  const auto wanted = test::fixture("squad.json");
  for (const auto& pair : wanted.at("normalised"))
    EXPECT_EQ(normalised_answer(pair.at(0).get<std::string>()), pair.at(1).get<std::string>()) << pair.at(0);
}

TEST(Squad, ExactMatchAndF1AreTheOfficialOnes) {
  const auto wanted = test::fixture("squad.json");
  for (const auto& pair : wanted.at("pairs")) {
    const std::string said = pair.at(0);
    const std::string truth = pair.at(1);
    EXPECT_EQ(exact_match(said, truth), pair.at(2).get<double>()) << said << " / " << truth;
    EXPECT_NEAR(answer_f1(said, truth), pair.at(3).get<double>(), 1e-12) << said << " / " << truth;
  }
}

constexpr const char* questions = R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [
  {"id": "1", "question": "?", "answers": [{"text": "the red house", "answer_start": 0}, {"text": "house", "answer_start": 8}]},
  {"id": "2", "question": "?", "answers": [{"text": "blue", "answer_start": 0}]},
  {"id": "3", "question": "?", "answers": [{"text": "green", "answer_start": 0}]}]}]}]})";

TEST(Squad, TheBestOfAQuestionsAnswersCountsAndNoAnswerIsWrong) {
  const auto score = score_squad(R"({"1": "A house", "2": "dark blue", "9": "x"})", "a", questions, "d");
  EXPECT_EQ(score.questions, 3U);
  EXPECT_EQ(score.unanswered, 1U);
  EXPECT_NEAR(score.exact, 100.0 / 3, 1e-12);
  EXPECT_NEAR(score.f1, 100 * (1 + 2.0 / 3) / 3, 1e-12);
}

TEST(Squad, WhatIsNotOfItsFormIsRefusedWithItsPlace) {
  const auto refuses = [](const char* answers, const char* data, const char* says) {
    EXPECT_THAT([&] { score_squad(answers, "a.json", data, "d.json"); }, ThrowsMessage<usage_error>(HasSubstr(says)));
  };
  refuses("{", questions, "a.json: it is no JSON");
  refuses("[]", questions, "a.json: found array, wanted an object");
  refuses(R"({"1": 2})", questions, "a.json: '1': found number, wanted an answer's text");
  refuses(R"({"7": "x"})", questions, "a.json: found an answer to none of the questions of d.json");
  refuses(R"({"1": "x"})", "[]", "d.json: found no \"data\", wanted a list");
  refuses(R"({"1": "x"})", R"({"data": []})", "d.json: found no questions");
  refuses(R"({"1": "x"})", R"({"data": [{"paragraphs": 1}]})",
          "d.json: article 1: found \"paragraphs\" that is number");
  refuses(R"({"1": "x"})", R"({"data": [{"paragraphs": [{"qas": [{"id": "1", "answers": []}]}]}]})",
          "d.json: article 1: paragraph 1: question 1: found no answers");
  refuses(R"({"1": "x"})", R"({"data": [{"paragraphs": [{"qas": [{"id": "1", "answers": [{}]}]}]}]})",
          "question 1: an answer: found no \"text\"");
}

} // namespace
} // namespace penstock::apps
