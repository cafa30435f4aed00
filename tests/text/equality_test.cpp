// Ids and texts equal those of the ecosystem's libraries, on lines that are hard and on lines that are real.
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/tokenizer.hpp"
#include "tests/text/fixtures.hpp"

#include <gmock/gmock.h>

#include <thread>

namespace penstock::apps {
namespace {

std::string shown(const token_ids& ids) {
  std::string text;
  for (const auto id : ids)
    (text += text.empty() ? "" : " ") += std::to_string(id);
  return text;
}

struct equality {
  const char* spec; // FILE stands for the fixture's path
  const char* ids;
};

void PrintTo(const equality& e, std::ostream* out) {
  *out << e.spec;
}

std::unique_ptr<tokenizer> open_fixture(const std::string& spec) {
  const auto colon = spec.find(':');
  if (colon == std::string::npos) return open_tokenizer(fixture(spec).string());
  return open_tokenizer(spec.substr(0, colon + 1) + fixture(spec.substr(colon + 1)).string());
}

class Tokenizer : public testing::TestWithParam<equality> {};

TEST_P(Tokenizer, EncodesEveryLineAsTheLibraryDoes) {
  const auto opened = open_fixture(GetParam().spec);
  const auto lines = split_lines(read_file(fixture("lines.txt")));
  const auto wanted = split_lines(read_file(fixture(GetParam().ids)));
  ASSERT_EQ(lines.size(), wanted.size());
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(shown(opened->encode(lines[i])), wanted[i]) << "line " << i + 1 << ": " << lines[i];
}

INSTANTIATE_TEST_SUITE_P(OfFixtures, Tokenizer,
                         testing::Values(equality{"uncased.txt", "uncased.ids"}, equality{"cased.txt", "cased.ids"},
                                         equality{"wordpiece-cased:cased.txt", "cased.ids"},
                                         equality{"uncased.json", "uncased.json.ids"},
                                         equality{"cased.json", "cased.json.ids"},
                                         equality{"bytes.json", "bytes.json.ids"},
                                         equality{"ends.json", "ends.json.ids"}, equality{"merges.bpe", "merges.ids"},
                                         equality{"pieces.model", "pieces.ids"}));

TEST(WordPiece, DecodesAsTransformersDoes) {
  for (const std::string name : {"uncased", "cased"}) {
    const auto opened = open_fixture(name + ".txt");
    const auto lines = split_lines(read_file(fixture("lines.txt")));
    const auto wanted = split_lines(read_file(fixture(name + ".decoded")));
    ASSERT_EQ(lines.size(), wanted.size());
    for (std::size_t i = 0; i < lines.size(); ++i)
      EXPECT_EQ(opened->decode(opened->wrapped(opened->encode(lines[i]))), wanted[i]) << name << " line " << i + 1;
  }
}

TEST(WordPiece, WrapsASequenceInItsTokens) {
  const auto opened = open_fixture("uncased.txt");
  EXPECT_EQ(opened->special(), (special_ids{.pad = 0, .unknown = 1, .begin = 2, .end = 3, .mask = 4}));
  EXPECT_EQ(opened->wrapped({7}), (token_ids{2, 7, 3}));
  EXPECT_EQ(opened->description(), "WordPiece, lower case, " + std::to_string(opened->vocabulary_size()) + " tokens");
}

TEST(ByteLevelPairs, GiveBackTheTextTheyTook) {
  const auto opened = open_fixture("bytes.json");
  for (const auto& line : split_lines(read_file(fixture("lines.txt"))))
    EXPECT_EQ(opened->decode(opened->encode(line)), line);
}

TEST(SubwordMerges, FillTheVocabularyPastAnExactMultiple) {
  const temporary_folder folder;
  write_file(folder / "m", "#version: 0.2\na b\n");
  write_file(folder / "m.vocab", "w\nx\ny\nz\n");
  const auto exact = open_tokenizer((folder / "m").string());
  EXPECT_EQ(exact->vocabulary_size(), 16);
  EXPECT_EQ(exact->token(8), "madeupword0000");
  write_file(folder / "m.vocab", "w 12\nx@@ 3\ny 1\n");
  const auto filled = open_tokenizer((folder / "m").string());
  EXPECT_EQ(filled->vocabulary_size(), 8);
  EXPECT_EQ(filled->special(), (special_ids{.pad = 0, .unknown = 1, .begin = 2, .end = 3}));
  EXPECT_EQ(filled->decode(token_ids{2, 5, 4, 6, 3, 0}), "xw y");
  EXPECT_EQ(filled->encode("w q"), (token_ids{4, 1}));
}

TEST(SubwordMerges, MergeAWordOfAnyLengthInTheSameWay) {
  const temporary_folder folder;
  write_file(folder / "m", "#version: 0.2\na a\naa aa\nb a\n");
  write_file(folder / "m.vocab", "aaaa@@\naa@@\na@@\na\n");
  const auto opened = open_tokenizer((folder / "m").string());
  // 40 and 400 characters go two ways; the last character ends the word and merges with nothing.
  for (const std::size_t fours : {10, 100}) {
    token_ids wanted(fours, 4);
    wanted.push_back(7);
    EXPECT_EQ(opened->encode(std::string(4 * fours + 1, 'a')), wanted);
  }
}

TEST(Words, AreLookedUpBetweenWhiteSpace) {
  const temporary_folder folder;
  write_file(folder / "words", "<eos>\n<unk>\nthe\nearth\n");
  const auto opened = open_tokenizer((folder / "words").string());
  EXPECT_EQ(opened->encode("  the\tearth\u00a0moved "), (token_ids{2, 3, 1}));
  EXPECT_EQ(opened->decode(token_ids{2, 3, 1, 0}), "the earth <unk>");
  EXPECT_EQ(opened->special().end, 0);
  EXPECT_EQ(opened->description(), "words, 4 of them");
}

TEST(Tokenizers, AnswerManyThreadsAlike) {
  const auto lines = split_lines(read_file(fixture("lines.txt")));
  for (const auto* spec : {"uncased.txt", "merges.bpe", "pieces.model", "bytes.json"}) {
    const auto opened = open_fixture(spec);
    std::vector<std::vector<token_ids>> results(3);
    std::vector<std::jthread> threads;
    for (auto& result : results)
      threads.emplace_back([&] {
        for (const auto& line : lines)
          result.push_back(opened->encode(line));
      });
    threads.clear();
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

} // namespace
} // namespace penstock::apps
