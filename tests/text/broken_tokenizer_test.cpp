// Files that are damaged, by hand and by chance: each is refused in one line that names it, or works.
#include "apps/text/open_tokenizer.hpp"
#include "kernels/check.hpp"
#include "tests/text/fixtures.hpp"

#include <gmock/gmock.h>

#include <random>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string fault_of(const std::string& spec) {
  try {
    open_tokenizer(spec);
  } catch (const error& fault) {
    return fault.what();
  } catch (const usage_error& fault) {
    return fault.what();
  }
  return "none";
}

struct broken_file {
  std::string text, wanted, kind = "";
};

const std::string bert = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"; // NOLINT: constant of a test

std::string bert_json(const std::string& vocab, const std::string& normalizer = R"("BertNormalizer")",
                      const std::string& more = "") {
  return R"({"added_tokens":[],"normalizer":{"type":)" + normalizer +
         R"(,"clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},)" +
         R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,"decoder":null,)" + more +
         R"("model":{"type":"WordPiece","unk_token":"[UNK]","vocab":)" + vocab + "}}";
}

TEST(BrokenTokenizer, IsRefusedInOneLineThatSaysWhat) {
  const std::vector<broken_file> all{
      {"", "is empty"},
      {"nothing known\nhere\n", "is no tokenizer that is known here", ""},
      {bert + "a\nb\na\n", "line 8: found 'a', which is already on line 6"},
      {bert + "a\n\nb\n", "line 7 is empty"},
      {bert + "a\n\xff"
              "b\n",
       "line 7: byte 1 is 0xff, wanted UTF-8"},
      {bert + std::string(5000, 'x') + "\n", "line 6 has 5000 bytes"},
      {"\xef\xbb\xbf" + bert, "byte order mark", "wordpiece:"},
      {"[UNK]\na\n", "has no [PAD], [CLS], [SEP], [MASK]"},
      {"<unk>\nthe\n", "has no <eos>"},
      {"#version: 0.3\na b\n", "found version '0.3', wanted 0.1 or 0.2", "merges:"},
      {"#version: 0.2\na b\nabc\n", "line 3: found 'abc', wanted two symbols", "merges:"},
      {"#version: 0.2\na b\n", "m.vocab"},
      {"{\"model\": ", "wanted JSON"},
      {"{}", "model"},
      {bert_json(R"({"[UNK]":0,"a":2})"), "no token with the id 1"},
      {bert_json(R"({"[UNK]":0,"a":0})"), "the id 0 for '[UNK]' and for 'a'"},
      {bert_json(R"({"[UNK]":0,"[UNK]":1})"), "twice in one object"},
      {bert_json(R"({"[UNK]":"0"})"), "vocab"},
      {bert_json(R"({"a":0})"), "has no '[UNK]'"},
      {bert_json(R"({"[UNK]":0})", R"("Precompiled")"), "not supported: the normalizer Precompiled"},
      {R"({"model":{"type":"Unigram"},"post_processor":{"type":"Odd"}})",
       "not supported: the post-processor Odd; the model Unigram"},
  };
  for (const auto& broken : all) {
    const temporary_folder folder;
    const auto file = (folder / "m").string();
    write_file(file, broken.text);
    if (broken.kind == "merges:") write_file(file + ".vocab", "a\n");
    const auto fault = fault_of(broken.kind + file);
    EXPECT_THAT(fault, HasSubstr(broken.wanted));
    EXPECT_THAT(fault, HasSubstr(file));
    EXPECT_THAT(fault, Not(HasSubstr("\n")));
  }
}

TEST(BrokenTokenizer, TakesTheLineEndsOfWindows) {
  const temporary_folder folder;
  write_file(folder / "m", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na\r\n");
  EXPECT_EQ(open_tokenizer((folder / "m").string())->encode("a"), token_ids{5});
}

TEST(BrokenTokenizer, IsToldByTheKindItClaims) {
  EXPECT_THAT(fault_of("wordpeice:x"), HasSubstr("did you mean 'wordpiece'"));
  EXPECT_THAT(fault_of("words:"), HasSubstr("wanted a file behind the colon"));
  EXPECT_THAT(fault_of("/no/such/file"), HasSubstr("/no/such/file"));
}

TEST(BrokenTokenizer, RefusesIdsAndTextThatAreNone) {
  const auto opened = open_tokenizer(fixture("uncased.txt").string());
  EXPECT_THROW(opened->decode(token_ids{opened->vocabulary_size()}), error);
  EXPECT_THROW(opened->decode(token_ids{-1}), error);
  EXPECT_THROW(opened->encode("a\xff"), error);
}

// Bytes flipped, cut off, doubled: what opens must encode and decode without leaving its memory.
TEST(BrokenTokenizer, SurvivesDamageByChance) {
  std::mt19937 random(13); // NOLINT: the same damage every time
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  const auto lines = split_lines(read_file(fixture("lines.txt")));
  const temporary_folder folder;
  const auto file = (folder / "m").string();
  std::filesystem::copy_file(fixture("merges.bpe.vocab"), file + ".vocab");
  for (const std::string name : {"uncased.txt", "uncased.json", "bytes.json", "merges.bpe", "pieces.model"}) {
    const auto good = read_file(fixture(name));
    for (int trial = 0; trial < 60; ++trial) {
      auto bytes = good;
      // A model's pieces and trainer are at its ends, its rules, the most of it, between.
      const auto where = [&] {
        return below(trial % 2 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 4000));
      };
      for (auto changes = below(3) + 1; changes > 0; --changes)
        bytes[where()] = static_cast<char>(below(256));
      if (trial % 5 == 0) bytes.resize(where() + 1);
      if (trial % 7 == 0) bytes += bytes.substr(where());
      write_file(file, bytes);
      try {
        const auto opened = open_tokenizer(file);
        for (std::size_t i = 0; i < 40; ++i)
          opened->decode(opened->encode(lines[i]));
      } catch (const error& fault) {
        EXPECT_THAT(fault.what(), Not(HasSubstr("\n"))) << name;
      } catch (const usage_error& fault) {
        EXPECT_THAT(fault.what(), Not(HasSubstr("\n"))) << name;
      }
    }
  }
}

} // namespace
} // namespace penstock::apps
