// Questions with spans: where answers lie among tokens, windows of long contexts, and files that are refused.
#include "apps/data/squad_text.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/data/number_words.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using test::loaded;
using test::rows;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct squad_files {
  testing_support::temporary_folder folder;
  squad_options options{.tokens = std::make_shared<test::number_words>(),
                        .windows = {.most_tokens = 12, .stride = 3, .question_tokens = 3}};

  std::string file(const std::string& text) const {
    testing_support::write_file(folder / "s.json", text);
    return (folder / "s.json").string();
  }
  std::string of(const std::string& context, const std::string& question, const std::string& answer,
                 std::size_t start) const {
    return file(R"({"data": [{"paragraphs": [{"context": ")" + context + R"(", "qas": [{"id": "q", "question": ")" +
                question + R"(", "answers": [{"text": ")" + answer + R"(", "answer_start": )" + std::to_string(start) +
                "}]}]}]}]}");
  }
};

TEST(SquadText, AWindowIsQuestionAndContextWithTheAnswersTokens) {
  const squad_files at;
  const squad_text data(at.of("10 11 12 13", "20 21", "11 12", 3), at.options);
  const auto values = loaded(data, *data.minibatches({.training = false}), 0);
  EXPECT_EQ(values.at("input_ids"), (rows{{1, 20, 21, 2, 10, 11, 12, 13, 2, 0}}));
  EXPECT_EQ(values.at("token_type_ids"), (rows{{0, 0, 0, 0, 1, 1, 1, 1, 1, 0}}));
  EXPECT_EQ(values.at("lengths"), (rows{{9}}));
  EXPECT_EQ(values.at("start_positions"), (rows{{5}}));
  EXPECT_EQ(values.at("end_positions"), (rows{{6}}));
  EXPECT_EQ(data.windows().answer(0, 5, 6), "11 12");
  EXPECT_EQ(data.windows().answer(0, 0, 6), "");
  EXPECT_EQ(data.windows().answer(0, 6, 5), "");
  EXPECT_EQ(data.windows().answer(0, 7, 8), "");
}

TEST(SquadText, CharactersAreCountedNotBytes) {
  const squad_files at;
  const squad_text data(at.of("é – 12 13", "20", "12", 4), at.options);
  EXPECT_EQ(data.windows().windows()[0].start, 3 + 2);
  EXPECT_EQ(data.windows().answer(0, 5, 6), "12 13");
}

TEST(SquadText, AnAnswerWithinAWordIsTheWord) {
  const squad_files at;
  const squad_text data(at.of("10 x11y 12", "20", "11", 4), at.options);
  EXPECT_EQ(data.windows().windows()[0].start, 4);
  EXPECT_EQ(data.windows().windows()[0].end, 4);
  EXPECT_EQ(data.windows().answer(0, 4, 4), "x11y");
}

TEST(SquadText, ALongContextHasWindowsThatOverlap) {
  const squad_files at; // 12 tokens: 1 and 2 around the question's 3, 2 behind the context's 6
  const squad_text data(at.of("10 11 12 13 14 15 16 17 18 19", "20 21 22 23", "17", 21), at.options);
  const auto& windows = data.windows().windows();
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].start, 0); // not in it
  EXPECT_EQ(windows[0].end, 0);
  EXPECT_EQ(windows[1].start, 5 + 4);
  EXPECT_EQ(windows[2].start, 5 + 1);
  EXPECT_EQ(windows[2].context_tokens, 4);
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(data.windows().answer(i, windows[i].start, windows[i].end), "17");
  EXPECT_THAT(data.description(), HasSubstr("1 questions in 3 windows"));
  EXPECT_THAT(data.description(), HasSubstr("1 questions cut to 3 tokens"));
}

TEST(SquadText, FilesThatAreNotOfTheFormAreRefusedWithTheirPlace) {
  const squad_files at;
  const auto refuses = [&](const std::string& file, const std::string& says) {
    EXPECT_THAT([&] { squad_text(file, at.options); }, ThrowsMessage<error>(HasSubstr(says)));
  };
  const std::string first = "s.json: article 1: paragraph 1: question 1";
  refuses(at.of("10 11", "20", "11", 2), first + ": answer 1: found '11' at character 2, wanted what the context has");
  refuses(at.of("10 11", "20", "11", 99), "at character 99");
  refuses(at.of("10 11", "20", "", 0), first + ": answer 1: found no text");
  refuses(at.file("{"), "s.json: it is no JSON");
  refuses(at.file("{}"), "s.json: found no \"data\", wanted a list");
  refuses(at.file(R"({"data": []})"), "s.json: found no questions");
  refuses(
      at.file(
          R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "?", "answers": []}]}]}]})"),
      first + ": found no answers");
  refuses(at.file(R"({"data": [{"paragraphs": [{"qas": []}]}]})"), "paragraph 1: found no \"context\", wanted text");
  refuses((at.folder / "missing.json").string(), "missing.json");
  auto options = at.options;
  options.windows.most_tokens = 5;
  EXPECT_THAT([&] { squad_text(at.of("10 11", "20 21", "11", 3), options); },
              ThrowsMessage<usage_error>(HasSubstr("a limit of 5 tokens, wanted more than the 5")));
}

} // namespace
} // namespace penstock::apps
